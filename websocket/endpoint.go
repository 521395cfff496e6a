package websocket

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// The defaults of the fields of Endpoint.
const (
	defaultReadLimit     = 64 << 10
	defaultMaxPending    = 64 << 10
	defaultPendingTotal  = 256 << 20
	defaultPingAfter     = 45 * time.Second
	defaultPongWithin    = 20 * time.Second
	defaultCloseWithin   = 5 * time.Second
	defaultMessageWithin = 60 * time.Second
	defaultWriteTimeout  = 30 * time.Second
	defaultRestartSpread = time.Second

	minFragments  = 1024 // of a message; all may have so many
	bytesPerFrame = 64   // of ReadLimit, for each further one
	maxControls   = 1000 // control frames of a peer in a second
	maxProtocols  = 255
)

// An Endpoint is what clients connect to: what the handshake agrees on, the limits, and the
// callbacks. Zero fields have safe defaults. Do not change it after the first Upgrade.
//
// Make an Endpoint once, not for each request: a Server keeps what it knows of an Endpoint
// for as long as it exists.
//
// Callbacks of one connection are never called at the same time. A callback may block;
// this delays only its own connection. What other goroutines write to a connection is sent
// when its callback returns.
type Endpoint struct {
	// Name identifies the Endpoint in other processes; see Register. "": its connections
	// end with the process.
	Name string
	// OnOpen is called for each new connection, before the answer to the handshake is
	// sent. It may write. An error closes the connection, as that of OnMessage.
	OnOpen func(c *Conn) error
	// OnMessage is called for each message, in order. An error closes the connection:
	// with the code and reason of a *CloseError, and with CodeInternal for other errors. A
	// panic is logged, and closes with CodeInternal. Without OnMessage, messages are
	// dropped.
	OnMessage func(c *Conn, m Message) error
	// OnClose is called once for each connection for which Upgrade returned nil, after its
	// end. err is a *CloseError, the error of another callback, or what broke the
	// connection.
	OnClose func(c *Conn, err error)

	// Serve is the function of Accept whose connections can move. In the new process it
	// is called again; in the old one, Read returns ErrMoved.
	Serve func(c *Conn) error
	// OnMoved is called for each connection that has come from another process, before
	// anything is read from it. rooms are the names of its Groups there: it must join them
	// again. It may write. An error closes the connection with CodeServiceRestart, or with
	// the code of a *CloseError.
	OnMoved func(c *Conn, rooms []string) error
	// State encodes what Conn.State returns for another process.
	State StateCodec

	// Check decides about a handshake that is valid. If it returns an error, that is the
	// answer: with the status and the text of a *StatusError, with 403 for other errors.
	Check func(ctx *sluice.RequestCtx) error
	// Origins are the origins of web pages that may connect, besides that of the request's
	// Host: "https://example.com", "https://*.example.com" for its subdomains, "*" for all.
	// Requests without the field Origin do not come from web pages, and are accepted.
	Origins []string
	// Protocols are the subprotocols that the server speaks, best first; at most 255. The
	// first one that the client offers is chosen. If it offers none of them, the
	// connection has no subprotocol.
	Protocols []string
	// Compression says whether messages are compressed.
	Compression Compression

	// ReadLimit is the largest message that is accepted, in bytes, decompressed; see also
	// Conn.Reader. A larger
	// one closes the connection with CodeTooLarge, and one of more than 1,024 fragments
	// with CodePolicy, unless ReadLimit has 64 bytes for each fragment. 0: 64 KiB; less:
	// no limit.
	ReadLimit int
	// MaxPending is how many bytes may wait for a slow peer. Write then waits for room. A
	// larger message waits until it is the only one. 0: 64 KiB.
	MaxPending int
	// MaxPendingTotal is how many bytes may wait in all connections of the Endpoint
	// together. When they do, connections in which more than an equal share waits have no
	// room. 0: 256 MiB; less: no limit.
	MaxPendingTotal int64
	// Slow says what happens to a message that must not wait, if there is no room.
	Slow SlowPolicy

	// PingAfter is how long a peer may be silent before the server sends a ping; 0: 45 s,
	// less: never. The actual time differs by up to 20 % between connections. PongWithin
	// is how long the server then waits for a frame; 0: 20 s.
	PingAfter, PongWithin time.Duration
	// CloseWithin is how long the server waits for the peer's answer to Conn.Close, once the
	// Close frame is sent; until then, WriteTimeout bounds the wait. 0: 5 s.
	CloseWithin time.Duration
	// MessageWithin is how long a message may take from its first byte to its last, and for
	// Conn.Reader the next part of one; 0: 60 s, less: no limit.
	MessageWithin time.Duration
	// WriteTimeout is how long a peer may take nothing of what is sent; 0: 30 s, less: no
	// limit. Without a limit, a peer that never reads keeps its connection, also after
	// Conn.Close.
	WriteTimeout time.Duration
	// RestartSpread is the time over which connections that cannot move are closed with
	// CodeServiceRestart when another process replaces this one; 0: 1 s. The new
	// connections of their clients are spread as much.
	RestartSpread time.Duration

	once     sync.Once
	resolved *settings
}

// settings are the fields of an Endpoint with their defaults.
type settings struct {
	Endpoint     *Endpoint
	readLimit    int64 // 0: none
	maxFragments int   // of a message; 0: no limit
	maxPending   int
	pendingTotal pendingTotal

	pingAfter, pongWithin, closeWithin, messageWithin, writeTimeout time.Duration // 0: none
	restartSpread                                                   time.Duration

	counting sync.Mutex
	hosts    []*host // of Servers
}

var _ upgrade.Family = (*settings)(nil)

// settings resolves e at its first use.
func (e *Endpoint) settings() *settings {
	e.once.Do(func() {
		e.resolved = &settings{
			Endpoint:      e,
			readLimit:     int64(orDefault(e.ReadLimit, defaultReadLimit)),
			maxFragments:  fragmentsFor(e.ReadLimit),
			maxPending:    orDefault(max(e.MaxPending, 0), defaultMaxPending),
			pendingTotal:  pendingTotal{limit: orDefault(e.MaxPendingTotal, defaultPendingTotal)},
			pingAfter:     orDefault(e.PingAfter, defaultPingAfter),
			pongWithin:    orDefault(max(e.PongWithin, 0), defaultPongWithin),
			closeWithin:   orDefault(max(e.CloseWithin, 0), defaultCloseWithin),
			messageWithin: orDefault(e.MessageWithin, defaultMessageWithin),
			writeTimeout:  orDefault(e.WriteTimeout, defaultWriteTimeout),
			restartSpread: orDefault(max(e.RestartSpread, 0), defaultRestartSpread),
		}
	})
	return e.resolved
}

// fragmentsFor returns how many fragments a message may have.
func fragmentsFor(readLimit int) int {
	if readLimit < 0 {
		return 0
	}
	return max(minFragments, readLimit/bytesPerFrame)
}

// orDefault returns n, the default for 0, and 0 for less.
func orDefault[N int | int64 | time.Duration](n, standard N) N {
	if n == 0 {
		return standard
	}
	return max(n, 0)
}

// A Compression says whether messages are compressed (permessage-deflate, RFC 7692), if the
// peer agrees. Messages of less than 128 bytes, and those that would become longer, are
// not compressed.
//
// The length of a compressed message tells something of its content. Do not let an attacker
// add text to messages with secrets: with CompressionTakeover, to the messages before them
// too.
type Compression uint8

const (
	// CompressionOff: nothing is compressed.
	CompressionOff Compression = iota
	// CompressionShared: each message is compressed for itself. An idle connection holds
	// nothing for it.
	CompressionShared
	// CompressionTakeover: a message may refer to those before it, which makes short ones
	// much smaller. A connection keeps up to 4 KiB of what it has sent, and 4 KiB of what
	// it has received, or 32 KiB if the client does not let the server choose. With
	// SlowDropOld, messages to the peer do not refer to others.
	CompressionTakeover
)

// String returns "off", "shared" or "takeover".
func (c Compression) String() string {
	if c > CompressionTakeover {
		return fmt.Sprintf("Compression(%d)", uint8(c))
	}
	return [...]string{"off", "shared", "takeover"}[c]
}

const (
	// movePrefix begins the names of families. It has the version of appendMoved.
	movePrefix = "websocket2:"
	// maxMovedState is the largest result of StateCodec.Encode.
	maxMovedState = 32 << 10
	// maxMoved is the largest state of a connection. With the input that was read and
	// not used it must fit into one message between processes.
	maxMoved = 56 << 10
)

// A StateCodec makes bytes of the states of connections that move to another process.
// Its methods may be called by any number of goroutines. What the program changes while
// Encode runs (SetState, Groups) does not move.
type StateCodec interface {
	// Encode returns at most 32 KiB. If it fails, the connection stays in its process.
	Encode(state any) ([]byte, error)
	// Decode must not retain p. If it fails, the connection is closed with
	// CodeServiceRestart.
	Decode(p []byte) (any, error)
}

// Name implements upgrade.Family.
func (set *settings) Name() string {
	if set.Endpoint.Name == "" {
		return ""
	}
	return movePrefix + set.Endpoint.Name
}

// protocolOf returns the index of a subprotocol in Endpoint.Protocols, plus 1; 0: it is
// none of them.
func (set *settings) protocolOf(name string) uint8 {
	return uint8(slices.Index(set.protocols(), name) + 1)
}

// A SlowPolicy says what happens to a message that must not wait for room, of TryWrite,
// WritePrepared and Group.Broadcast, when MaxPending or MaxPendingTotal is reached.
type SlowPolicy uint8

const (
	// SlowClose: the messages that wait are dropped, and the connection is closed with
	// CodeTryAgain. TryWrite returns ErrFull. It is for peers that a gap would mislead:
	// they connect again.
	SlowClose SlowPolicy = iota
	// SlowBlock: TryWrite returns ErrFull. A broadcast closes the connection as SlowClose
	// does, because it never waits.
	SlowBlock
	// SlowDropNew: the message is dropped. TryWrite returns ErrFull.
	SlowDropNew
	// SlowDropOld: the oldest messages that wait are dropped to make room. If that is not
	// enough, the message is dropped, and TryWrite returns ErrFull.
	SlowDropOld
	// SlowCoalesce: a message of PrepareKeyed takes the place of the one with the same key
	// that waits. If none waits, or if the message is longer than that one and there is no
	// room, SlowClose applies.
	SlowCoalesce
)

// String returns "close", "block", "drop new", "drop old" or "coalesce".
func (s SlowPolicy) String() string {
	if s > SlowCoalesce {
		return fmt.Sprintf("SlowPolicy(%d)", uint8(s))
	}
	return [...]string{"close", "block", "drop new", "drop old", "coalesce"}[s]
}

// protocols returns the subprotocols that a Conn can name.
func (set *settings) protocols() []string {
	return set.Endpoint.Protocols[:min(len(set.Endpoint.Protocols), maxProtocols)]
}
