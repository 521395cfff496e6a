package http2

import (
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
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
	// AsksUser: there is a callback for server.Request.HeaderReceived. StreamsBodies: ExpectBody
	// streams all bodies. LogsAll: the Host logs all errors. ClosesHijacked: streams are not
	// hijacked while the server ends.
	AsksUser, StreamsBodies, LogsAll, ClosesHijacked bool
	Meter                                            server.Meter
	// Requests are those that have not ended; nil: nothing waits for them.
	Requests *sync.WaitGroup
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

// A Host is the server that a connection belongs to.
type Host interface {
	server.Host
	// IsClosing reports whether connections are to end after their present requests. f are the
	// facts about this one.
	IsClosing(f *server.Facts) bool
	// Stage tells how far the server's life is.
	Stage() server.Stage
	// Closed is called once, after the last call of the engine. err is why the
	// connection ended; nil if it was orderly.
	Closed(err error)
	// Log logs an error of a connection, if such errors are logged.
	Log(c engine.Conn, err error)
	// RunHijacked calls a hijack handler, and closes c unless the program keeps it. It returns
	// false if the handler has panicked, after it has logged that: the caller then ends c.
	RunHijacked(c net.Conn, handler func(net.Conn)) (hasReturned bool)
	// Wake returns a Protocol that ServeProtocol has got, and that sleeps; see engine.Waker.
	Wake(c engine.Conn, m engine.Memo) engine.Protocol
}
