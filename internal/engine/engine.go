// Package engine defines the interface between engines, which read and write
// sockets, and protocols, which interpret the bytes.
//
// An Engine moves bytes between sockets and a Protocol. A Protocol owns no
// descriptor, and waits only through its Conn. Conn of internal/server/http1 implements
// Protocol (HTTP/1.1); the packages below this one implement Engine.
package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"time"
)

// Options configure an engine; all fields may be zero.
type Options struct {
	ReadBufferSize    int           // input buffer, bytes; 0: 16 KiB
	FlushSize         int           // pending output that is written before more requests are run; 0: 32 KiB
	HandshakeTimeout  time.Duration // TLS; 0: none
	MaxHandshakes     int           // that have begun; one more ends the oldest; 0: 2,048 for each processor
	LingerTimeout     time.Duration // bound of a lingering close; 0: 1 s
	KeepAlivePeriod   time.Duration // TCP keep-alive probes; 0: the system's default, < 0: off
	MaxWorkers        int           // goroutines that run handlers and Tasks; 0: no limit
	Loops             int           // event loops, where an engine has them; 0: as the engine finds best
	MaxIdleWorkerTime time.Duration // how long an idle worker is kept; 0: 10 s
	// NetConnIsKept: the user retains NetConn, and may close it or set deadlines on
	// it at any time. Event engines keep one NetConn for each connection.
	NetConnIsKept bool
	// SparesDeadlines: goroutine engines set a deadline on a NetConn that they did
	// not make only if a time-out requires it. A connection that waits without a
	// deadline then keeps its buffers, and a Cooler what it has. With ReduceMemory it
	// keeps none, which costs another read.
	SparesDeadlines, ReduceMemory bool
	// IOUring: event engines send the responses of several connections with one system
	// call, where package uring works.
	IOUring bool
}

// handshakesPerProc is about how many handshakes a processor begins in a second. So the limit
// ends only peers that take longer than that, however many there are.
const handshakesPerProc = 2048

// WithDefaults returns o with the defaults that the fields' comments name.
func (o Options) WithDefaults() Options {
	if o.ReadBufferSize <= 0 {
		o.ReadBufferSize = 16 << 10
	}
	if o.FlushSize <= 0 {
		o.FlushSize = 32 << 10
	}
	if o.MaxHandshakes <= 0 {
		o.MaxHandshakes = handshakesPerProc * runtime.GOMAXPROCS(0)
	}
	if o.LingerTimeout <= 0 {
		o.LingerTimeout = time.Second
	}
	if o.MaxIdleWorkerTime <= 0 {
		o.MaxIdleWorkerTime = 10 * time.Second
	}
	return o
}

// A TLSListener accepts TLS connections. Engines that drive sockets accept from
// its Listener and make the TLS connection themselves. For other engines it behaves
// like the result of tls.NewListener.
type TLSListener struct {
	net.Listener
	Config *tls.Config
	// Compact allows connections whose record layer is ours: see package compact. Engines
	// without slots ignore it.
	Compact bool
	// MayBeProxied is set by engines for a ProxyRule, whose headers come before TLS.
	MayBeProxied bool
}

// Accept implements net.Listener; the connection is a *tls.Conn.
func (l *TLSListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Secure(c, l.Config, l.MayBeProxied), nil
}

// Stats is a snapshot of an engine's gauges.
type Stats struct {
	Open    int // connections the engine knows
	Active  int // of those, with a request in Feed or Run; and Tasks
	Compact int // of those, compact TLS connections: see package compact
	Cold    int // of those, without ciphers, because they have been idle
	// Handshakes is the number of TLS handshakes that have begun and are not over, and
	// HandshakesDropped of those that MaxHandshakes has ended.
	Handshakes        int
	HandshakesDropped uint64
}

// LoopStats is a snapshot of one event loop with its connections and workers. An
// engine without loops has a single LoopStats for everything.
type LoopStats struct {
	Connections int // open, of this part
	Active      int // of those, claimed by a worker or in the middle of a request; and Tasks
	Queued      int // ready and waiting for a worker
	Workers     int // goroutines that run protocols
	IdleWorkers int // of those, waiting for work
	Buffers     int // input and output buffers that connections hold (event engines: while they wait)
}

// Accepting is an Engine that continues to accept after its listener was closed,
// if the socket remains open in another process. Event engines implement it; root's
// Server calls it.
type Accepting interface {
	// StopAccepting makes the Serve of ln return nil. After StopAccepting has
	// returned, the engine accepts no connection from ln. It does not close ln.
	StopAccepting(ln net.Listener)
}

// An Engine serves connections.
type Engine interface {
	// Name is the name by which users select the engine ("perconn", "epoll").
	Name() string
	// Serve accepts from ln until ln fails permanently or Shutdown is called. It
	// returns ln's error, or nil after Shutdown. It does not close ln before that.
	// Several calls of Serve may run concurrently.
	Serve(ln net.Listener, a Acceptor) error
	// ServeConn serves one connection. It returns when the connection is closed,
	// or detached by a Run; Protocol.Detached then runs on a separate goroutine. If
	// Starter.Start detaches the connection, ServeConn returns after Detached.
	// leftover is input that was read before (live hand-over); it is fed first.
	// ServeConn returns the error that Protocol.Closed gets. While Shutdown waits for other
	// connections or Tasks, c ends as they do.
	ServeConn(c net.Conn, leftover []byte, a Acceptor) error
	// CloseOnNextResponse makes Life reach StageClosing. A Protocol that sees it
	// answers its current request with "close". Idle connections stay open.
	CloseOnNextResponse()
	// Nudge prompts every connection, as its Prompter does: a Protocol that
	// sees StageClosing may tell its peer. It prompts them in portions, so that
	// other connections are served in between, and returns when all were prompted.
	Nudge()
	// Life returns the engine's, which only the engine changes.
	Life() *Life
	// Range calls f for every connection until f returns false.
	Range(f func(Conn) bool)
	// AdoptConn serves c like an accepted connection, and returns at once. The
	// engine owns c from now on, even if AdoptConn returns an error. It copies p.
	// If p has State, it returns ErrNoUnpacker unless a is an Unpacker. Engines
	// compare Acceptors: use one for many connections.
	AdoptConn(c net.Conn, p Parcel, a Acceptor) error
	// DetachIdle detaches connections that are between requests, or whose Protocol
	// is a Rewinder that can restore that state; at most limit of them, unless
	// limit is negative. A Packer is packed; it may refuse. DetachIdle calls take
	// for each connection, after Protocol.Closed and Release. take owns the
	// connection and the Parcel. DetachIdle returns their number. Live hand-over to
	// a successor process uses it.
	//
	// Each connection is a *net.TCPConn or a *net.UnixConn. DetachIdle never
	// detaches TLS connections, connections that a listener has wrapped, and those
	// of ServeConn, whose caller waits for them.
	DetachIdle(limit int, take func(c net.Conn, p Parcel)) int
	// Cast sends frame to connections that wait for input, on the caller's
	// goroutine, without a call of their Protocols. It calls missed with the index of each
	// target to which it has sent nothing, in their order: because the connection is busy, in the middle of
	// input, waits for room, uses TLS, or has ended, or because the engine cannot.
	// The caller may prompt these. A connection that took a part of the frame gets
	// the rest as its peer reads. frame must not change until Cast returns.
	Cast(targets []Target, frame []byte, missed func(i int))
	// Prompt prompts the connection that t names, as its Prompter does. It does nothing
	// if t names none. A Target takes less memory than a Prompter, but an engine that
	// cannot cast has no Targets.
	Prompt(t Target)
	// ReadOn makes the engine read again from the connection that t names, whose Protocol is a
	// Stopper. It may be called on any goroutine, and does nothing if t names none.
	ReadOn(t Target)
	// Workers returns the goroutines that run the Tasks of something that is no connection of
	// the engine, which need not serve any. The Tasks of one key begin one after the other.
	Workers(key uint64) Workers
	// Shutdown ends the accept loops and closes the idle connections; it prompts those
	// whose Protocol SaysGoodbye instead. It waits until the others have finished
	// their requests. If ctx ends first, it closes the remaining connections and
	// returns ctx's error.
	Shutdown(ctx context.Context) error
	Stats() Stats
	Loops() []LoopStats
}

// A Parcel is what a connection takes along to another process or engine.
type Parcel struct {
	Leftover []byte // input that was read and not used; it is fed first
	State    []byte // of a Packer, for Unpacker.Unpack; nil: none
	TLS      []byte // of a compact TLS connection: a secret, see package compact; nil: none
	Proxy    []byte // the header of the PROXY protocol with which it began; nil: none
}

// IsNew reports whether p is that of a connection from which nothing was read.
func (p *Parcel) IsNew() bool { return len(p.Leftover)+len(p.State)+len(p.TLS)+len(p.Proxy) == 0 }

// A Target names a connection for Engine.Cast and Engine.Prompt. It contains no pointer, and never
// names a later connection. The zero value names none.
type Target struct {
	Index      int32
	Generation uint32
}

// An Adopter is an Engine that drives sockets itself and can adopt a descriptor.
type Adopter interface {
	// Adopt serves the connected stream socket fd like an accepted connection. The
	// engine owns fd from now on, even if Adopt returns an error. The rules of
	// Engine.AdoptConn apply.
	Adopt(fd int, p Parcel, a Acceptor) error
}

// A Prober is an Engine that can check whether its loops work. Engines with loops
// implement it; root's Server calls it.
type Prober interface {
	// Probe returns nil when every loop has run one pass after the call, or when
	// no loop runs. It returns ctx's error if ctx ends first.
	Probe(ctx context.Context) error
}

// ErrNoUnpacker is returned by Adopt and AdoptConn for a Parcel with State if the
// Acceptor is not an Unpacker.
var ErrNoUnpacker = errors.New("sluice: the connection's state has no receiver")

// ErrCompact is returned by Adopt and AdoptConn of an engine without compact TLS connections
// for a Parcel of one.
var ErrCompact = errors.New("sluice: the engine cannot go on with a TLS connection of another one")

// ErrShutdown is returned by Serve, ServeConn and Adopt of an engine that was shut
// down before.
var ErrShutdown = errors.New("sluice: engine is shut down")
