package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// Config holds what all connections of a server share. It must not change, except for what
// connections do with Pairs and Records.
type Config struct {
	// Settings are sent to every peer.
	Settings h2.Settings
	// Limits bound a field list.
	Limits h1.Limits
	// Gauges count what the connections do; it is needed.
	Gauges *Gauges
	// Pairs are the fields that the server's responses repeat.
	Pairs *h2.Pairs
	// Records are those of sleeping connections; they are needed.
	Records *Records
	// ConnWindow is how many bytes of bodies a peer may send on a connection beyond
	// those that were read; MaxConnWindow is what it grows to at most, and
	// MaxStreamWindow what the window of a stream grows to.
	ConnWindow, MaxConnWindow, MaxStreamWindow uint32
	// ReadTimeout bounds the time in which a field block arrives, and the preface with
	// the first SETTINGS. It must be positive.
	ReadTimeout time.Duration
	// StallTimeout bounds how long a peer may take nothing of a response, or not
	// acknowledge SETTINGS. It must be positive.
	StallTimeout time.Duration
	// MaxHeads is how many bytes the heads and trailer sections of all open streams of a
	// connection may have; requests beyond it are refused, which any client may repeat.
	// 0: 1 MiB.
	MaxHeads int
	// MaxRequests is how many streams a connection accepts before its graceful end; 0:
	// any number.
	MaxRequests uint64
	// IdleTimeout is how long a connection without streams stays open; 0: for ever.
	IdleTimeout time.Duration
	// TasksMayWait says that the engine's workers are limited: Tasks may begin late.
	TasksMayWait bool
}

// defaultMaxHeads is MaxHeads if it is 0.
const defaultMaxHeads = 1 << 20

func (cfg *Config) maxHeads() int {
	if cfg.MaxHeads > 0 {
		return cfg.MaxHeads
	}
	return defaultMaxHeads
}

// leastContinuations is how many CONTINUATION frames a field block may have, however
// small the heads are that it may encode.
const leastContinuations = 16

// continuations returns how many CONTINUATION frames a field block may have: enough for
// twice the largest head in full frames.
func (cfg *Config) continuations() uint16 {
	frames := 2 * int64(cfg.Limits.MaxHead) / h2.MinMaxFrameSize
	return uint16(min(max(frames, leastContinuations), 1<<16-1))
}

// A Stage is how far the life of a server is.
type Stage uint8

const (
	// StageServing: connections end for reasons of their own.
	StageServing Stage = iota
	// StageEnding: another server takes its place.
	StageEnding
	// StageShutDown: the same, and Tunnels end when a connection that ends has no other
	// streams.
	StageShutDown
)

// A Host is the server that a connection belongs to.
type Host interface {
	// NewStream returns a Stream whose Request is set, for the stream with a number. The Conn
	// uses it until it calls Request.End. It is called with Conn.mu locked; now is clock.Nanos
	// of the input.
	NewStream(id uint32, now int64) *Stream
	// IsClosing reports whether connections are to end after their present requests.
	IsClosing() bool
	// Stage tells how far the server's life is, if IsClosing is true.
	Stage() Stage
	// Closed is called once, after the last call of the engine. err is why the
	// connection ended; nil if it was orderly.
	Closed(err error)
}

// A Request is one request and its response. Its methods are called one after the
// other.
type Request interface {
	// Fields returns the empty table that the head is decoded to. Rest, Fields,
	// HeadComplete, BodyReceived, BodyComplete and Refuse are called with Conn.mu
	// locked: they must neither block nor call the Stream.
	Fields() *field.Table
	// HeadComplete is called with a valid head. Without isLast, a body follows; with
	// it, the request is complete. isStreamed: Serve begins now and reads the body
	// with Stream.ReadBody, or that of an extended CONNECT with a Tunnel. An error
	// refuses the request; Serve then answers it.
	HeadComplete(head *h2.Head, isLast bool) (isStreamed bool, err error)
	// BodyReceived gets the next part of a body that is not streamed. An error refuses
	// the request.
	BodyReceived(p []byte) error
	// BodyComplete is called at the end of a body that is not streamed. t has the
	// trailer fields; nil: there are none. t belongs to the caller.
	BodyComplete(t *field.Table)
	// BodyDue returns when BodyLate is called unless more of a body that is not streamed
	// arrives, in Nanos; 0: never. heard is when its last part came. BodyLate refuses the
	// request with isOver, or else must have another BodyDue. They are called like HeadComplete.
	BodyDue(heard int64) int64
	BodyLate(heard, now int64) (isOver bool)
	// Refuse makes Serve answer with err instead of calling a handler. method is that of a
	// request whose head was refused, without a call of HeadComplete; empty: it is not known,
	// or there was the call.
	Refuse(err error, method []byte)
	// Rest is called when Serve has to wait: the Request keeps what it needs for that only.
	Rest()
	// Holds returns how many bytes of memory the Request keeps for its response, and until
	// End. With isOwn, the content is in them. It is called with Conn.mu locked, by a method
	// of the Stream that gets content.
	Holds() (n int, isOwn bool)
	// Serve answers the request. It runs in a Task and may block. When it returns, the
	// response is complete, or else the stream is reset. With outlived, a Tunnel for
	// which Outlive was called has the stream, or what Produce or ServeProtocol got.
	Serve() (outlived bool)
	// End is the last call: the Conn uses the Stream no longer. End first stops what else
	// may use it, and then calls Stream.Release.
	End()
}
