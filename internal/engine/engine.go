// Package engine defines the interface between engines, which read and write
// sockets, and protocols, which interpret the bytes.
//
// An Engine moves bytes between sockets and a Protocol. A Protocol owns no
// descriptor, and waits only through its Conn. Root's serverConn implements
// Protocol (HTTP/1.1); the packages below this one implement Engine.
package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// Next tells the engine what to do after a step of a Protocol.
type Next uint8

const (
	// Read: feed more input. Feed returns it only with all of its input used.
	Read Next = iota
	// Run: a whole request has arrived; call Run. The engine keeps the rest of
	// the input until Run has returned.
	Run
	// Close: write the pending output, then close. If input is left over, the
	// engine lingers (half-closes, and discards input for a bounded time), so
	// that the last answer is not lost to a reset (RFC 9112 section 9.6).
	Close
	// CloseLinger: like Close, but always linger, because the peer is known to
	// be still sending.
	CloseLinger
	// Abort: close at once and discard the pending output.
	Abort
	// Detach: write the pending output, then pass the connection and its unread
	// input to Protocol.Detached, on a goroutine that may block for ever.
	Detach
	// Switch: write the pending output, then pass the connection and its unread
	// input to the Protocol that Switcher.Successor returns. Only Feed, Run and
	// Prompted of a Switcher may return it.
	Switch
)

// A Protocol is the state machine of one connection. The engine never calls it
// concurrently, except for callbacks for which Conn says so.
type Protocol interface {
	// Feed parses input. It consumes used bytes of in and must not retain in.
	// With next == Read, used == len(in).
	Feed(in []byte) (used int, next Next)
	// Run handles the request that Feed completed, appends the answer to out, and
	// returns out. It may block, and may use Conn.Read and Conn.Write. Before
	// Conn.Write, it must write the bytes in out, to keep the order. Run must not
	// panic.
	Run(out []byte) ([]byte, Next)
	// Pause is called before the engine waits for input. The Protocol releases
	// everything that an idle connection does not need. The result tells whether
	// the connection is between requests: nothing of the next request has arrived,
	// and nothing of the last one is left. Then the connection can be closed, or
	// passed to another process, without loss.
	Pause() (isIdle bool)
	// HalfClosed is called when the peer has ended its input (FIN) and the engine
	// waits for input. It appends the bytes to send before closing to out.
	HalfClosed(out []byte) []byte
	// TimedOut is called when the deadline of SetReadDeadline has passed during a
	// wait for input. The deadline is then cleared. TimedOut appends the bytes to
	// send (a 408, a ping, or none) to out. next is Close, CloseLinger or Abort, or
	// Read to continue; TimedOut may set another deadline.
	TimedOut(out []byte) ([]byte, Next)
	// Detached takes ownership of the connection after Detach. Reads on c return
	// the unread input first. The engine no longer knows the connection and does
	// not close it. Detached is called without locks on the connection's goroutine.
	Detached(c net.Conn)
	// Closed is the last call, made exactly once, after the descriptor was
	// closed or detached. err is nil for an orderly end.
	Closed(err error)
}

// A Starter is a Protocol with a step before the first input. Engines call Start
// once, right after Open, if the Protocol implements it. They act on Detach and
// Abort at once; Read continues as usual. Root uses it for protocols negotiated by
// ALPN, whose server may send first.
type Starter interface {
	Start() Next
}

// Start calls p.Start if p is a Starter. Otherwise it returns Read. Engines use
// it.
func Start(p Protocol) Next {
	if s, ok := p.(Starter); ok {
		return s.Start()
	}
	return Read
}

// A Switcher is a Protocol that another Protocol may replace on its connection.
type Switcher interface {
	// Successor is called once after Switch. It is the last call on this Protocol:
	// Closed is called on the successor only. The engine calls the successor's
	// Start if it is a Starter, and feeds it the unread input. Deadlines and the
	// write time-out remain set. If the successor is a Sleeper, the Acceptor's Wake
	// must recognise by the Memo which Protocol to return.
	//
	// DetachIdle does not detach connections that have switched.
	Successor() Protocol
}

// A Rewinder is a Protocol that can return the beginning of a request unparsed. If
// Pause returned false, an engine may call CanRewind and, with no other call in
// between, Rewind. Rewind returns the input that was fed since the end of the last
// request; the caller owns it. The connection is then between requests. Root's
// serverConn implements it for an incomplete head; DetachIdle calls it.
type Rewinder interface {
	CanRewind() bool
	Rewind() []byte
}

// A Sleeper is a Protocol whose idle connections need only a Memo. After a Pause
// that returned true, an engine may call Sleep and drop the Protocol, which
// returns itself to its pool. Sleep is the last call on it; Closed is not called.
// When an event arrives for the connection, the engine gets another Protocol from
// its Acceptor, which is a Waker. Deadlines and the write time-out remain set.
// If Sleep returns false, the engine retains the Protocol during this wait, and
// may ask again after the next Pause. Root's serverConn implements it; the event
// engines call it.
type Sleeper interface {
	Sleep() (m Memo, ok bool)
}

// A Waker is an Acceptor whose Protocols are Sleepers.
type Waker interface {
	// Wake returns a Protocol in the state in which Sleep was called. It makes no
	// call on c and does not block.
	Wake(c Conn, m Memo) Protocol
}

// A Memo is the state that an engine keeps for the Protocol of an idle connection.
// It holds no pointers, so that the garbage collector need not scan a million of
// them. Only the Protocol interprets the fields.
type Memo struct {
	ID     uint64
	Served uint64
	Opened int64
}

// A Prompted is a Protocol that can send without input from the peer. After a call
// of Prompter.Prompt, the engine calls Prompted once, when no other call of the
// Protocol is running and all pending output is written. The rules of Run apply to
// it. Several calls of Prompt before it cause one call of Prompted. After Read, the
// connection continues what it did before.
type Prompted interface {
	Prompted(out []byte) ([]byte, Next)
}

// A Prompter makes the engine call Protocol.Prompted. It may be called on any
// goroutine, never blocks, and does nothing when the connection has ended.
type Prompter interface {
	Prompt()
}

// A Conn gives a Protocol access to its connection. Engines implement it; root
// and package tcp call it.
type Conn interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr

	// NetConn returns the connection as the listener accepted it, or a view that
	// an engine with only a descriptor makes. Use it for addresses, TLS state and
	// identity (Server.ConnState). Reading from it while the engine serves it
	// takes input away from the engine, or fails. It remains valid even after the
	// Conn has ended.
	NetConn() net.Conn
	// IsSocket tells whether the connection is a bare socket. NetConn then offers
	// nothing beyond the addresses, and calling it may allocate.
	IsSocket() bool

	// Prompter returns the connection's Prompter, which may be retained for any
	// time.
	Prompter() Prompter

	// Blocking returns a net.Conn over the same socket that is valid during a Run.
	// Reads return the engine's unread input first; writes go directly to the
	// socket. Its Close makes the engine close the connection after Run.
	Blocking() net.Conn

	// Read reads input during Run: first the engine's unread input, then from the
	// socket, for which it may wait. It returns os.ErrDeadlineExceeded after the
	// deadline of SetReadDeadline, and io.EOF after the peer's FIN.
	Read(p []byte) (int, error)
	// Fill waits, during Run, until Buffered returns more than it does now. Its
	// errors are those of Read. Engines may refuse to hold more than
	// ReadBufferSize bytes (io.ErrShortBuffer): call Discard before Fill.
	Fill() error
	// Buffered returns the engine's unread input, which Read would return without
	// a read from the socket. It is valid until the next Read, Fill, Discard or
	// the end of Run.
	Buffered() []byte
	// Discard consumes n bytes of Buffered.
	Discard(n int)

	// Write writes all of p during Run, and waits for the peer if necessary, at
	// most for the time of SetWriteTimeout.
	Write(p []byte) (int, error)
	// WriteBuffers writes all of v in one go (writev on plain sockets). It
	// consumes v as net.Buffers does.
	WriteBuffers(v *net.Buffers) (int64, error)
	// SendFile sends a part of a file directly after the bytes that Run appends to
	// out. It returns at once. It may be called at most once in a Run, on every
	// kind of connection, with no Write or WriteBuffers after it.
	//
	// The engine keeps the file until it has sent it or the connection has
	// ended, and then closes Done, before Protocol.Closed. A file that ends
	// before Size bytes ends the connection with ErrShortFile. The write
	// time-out restarts whenever the peer accepts a part of it. On bare sockets the
	// engine sends without a copy if the system can (sendfile(2)).
	SendFile(f File)

	// SetReadDeadline sets the time until which the engine waits for input:
	// now+timeout, in Nanos; timeout 0 means for ever. Engines may arm it lazily,
	// but never report early. Time in which the engine writes the output of a Run
	// does not count. It is cheap enough to call for every request.
	SetReadDeadline(now int64, timeout time.Duration)
	// SetWriteTimeout bounds every blocked write, counted from when it blocks
	// (0: for ever).
	SetWriteTimeout(timeout time.Duration)

	// OnPeerGone arranges that f is called once, on any goroutine, if the peer
	// closes or resets the connection during Run. A further call in the same Run
	// replaces f. The arrangement ends with Run: f has returned before the caller
	// of Run continues, or is never called.
	OnPeerGone(f func())
}

// An Acceptor gives each new connection its Protocol. Root's Server and package
// tcp implement it; engines call it.
type Acceptor interface {
	// Open is called once for each accepted connection, after the TLS handshake if
	// there is one, on the goroutine that will serve it. A nil Protocol refuses
	// the connection: the engine writes as much of refusal as it can without
	// waiting, and closes the connection.
	Open(c Conn) (p Protocol, refusal []byte)
	// Admit is called before anything is spent on a connection, so before the TLS
	// handshake. Use c only for its addresses, and do not retain it. The result
	// false refuses the connection; the engine then writes refusal in plain text
	// if the connection is not TLS. Release is called once for every admitted
	// connection, after Protocol.Closed or after Open has refused it.
	Admit(c net.Conn) (ok bool, refusal []byte)
	Release(c net.Conn)
	// AcceptError reports a failed Accept that the engine will retry.
	AcceptError(err error)
}

// Hooks are optional callbacks of an Acceptor. Each may be nil. Engines call them
// on their goroutines, so they must not block.
type Hooks struct {
	// Arrived is called for every connection as soon as the engine has it,
	// before Divert and Admit. Departed is called once for each of these when the
	// engine has finished with it: after Closed and Release, if these are called.
	Arrived, Departed func()
	// Divert is called for every connection that was accepted from a listener and
	// is a bare socket of package net; not for connections of TLS, ServeConn, Adopt
	// and AdoptConn. The result true means that Divert has taken ownership by
	// duplicating or sending fd; the engine then closes its descriptor and forgets
	// the connection. Divert must not call the engine.
	Divert func(fd int) bool
}

// A Hooker is an Acceptor that has Hooks. Engines call Hooks once in a Serve,
// ServeConn or AdoptConn.
type Hooker interface {
	Hooks() Hooks
}

// HooksOf returns the hooks of a, none if it is no Hooker.
func HooksOf(a Acceptor) Hooks {
	if h, ok := a.(Hooker); ok {
		return h.Hooks()
	}
	return Hooks{}
}

// Options configure an engine; all fields may be zero.
type Options struct {
	ReadBufferSize    int           // input buffer, bytes; 0: 16 KiB
	FlushSize         int           // pending output that is written before more requests are run; 0: 32 KiB
	HandshakeTimeout  time.Duration // TLS; 0: none
	LingerTimeout     time.Duration // bound of a lingering close; 0: 1 s
	KeepAlivePeriod   time.Duration // TCP keep-alive probes; 0: the system's default, < 0: off
	MaxWorkers        int           // goroutines that run handlers; 0: no limit
	Loops             int           // event loops, where an engine has them; 0: as the engine finds best
	MaxIdleWorkerTime time.Duration // how long an idle worker is kept; 0: 10 s
	// NetConnIsKept: the user retains NetConn, and may close it or set deadlines on
	// it at any time. Event engines keep one NetConn for each connection.
	NetConnIsKept bool
	// SparesDeadlines: goroutine engines set a deadline on a NetConn that they did
	// not make only if a time-out requires it. A connection that waits without a
	// deadline then keeps its buffers. With ReduceMemory it keeps none, which costs
	// another read.
	SparesDeadlines, ReduceMemory bool
}

// WithDefaults returns o with the defaults that the fields' comments name.
func (o Options) WithDefaults() Options {
	if o.ReadBufferSize <= 0 {
		o.ReadBufferSize = 16 << 10
	}
	if o.FlushSize <= 0 {
		o.FlushSize = 32 << 10
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
}

// Accept implements net.Listener; the connection is a *tls.Conn.
func (l *TLSListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(c, l.Config), nil
}

// Stats is a snapshot of an engine's gauges.
type Stats struct {
	Open   int // connections the engine knows
	Active int // of those, with a request in Feed or Run
}

// LoopStats is a snapshot of one event loop with its connections and workers. An
// engine without loops has a single LoopStats for everything.
type LoopStats struct {
	Connections int // open, of this part
	Active      int // of those, claimed by a worker or in the middle of a request
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
	// ServeConn returns the error that Protocol.Closed gets.
	ServeConn(c net.Conn, leftover []byte, a Acceptor) error
	// CloseOnNextResponse makes CloseRequested true. A Protocol that sees it
	// answers its current request with "close". Idle connections stay open.
	CloseOnNextResponse()
	// Nudge prompts every connection, as its Prompter does: a Protocol that
	// sees CloseRequested may tell its peer. It prompts them in portions, so that
	// other connections are served in between, and returns when all were prompted.
	Nudge()
	// CloseRequested tells whether CloseOnNextResponse or Shutdown was called.
	CloseRequested() bool
	// Range calls f for every connection until f returns false.
	Range(f func(Conn) bool)
	// AdoptConn serves c like an accepted connection, and returns at once. The
	// engine owns c from now on, even if AdoptConn returns an error. leftover is
	// input that was read before (live hand-over); it is copied, and fed first.
	// Engines compare Acceptors: use one for many connections.
	AdoptConn(c net.Conn, leftover []byte, a Acceptor) error
	// DetachIdle detaches connections that are between requests, or whose Protocol
	// is a Rewinder that can restore that state; at most limit of them, unless
	// limit is negative. It calls take for each, with its unused input, after
	// Protocol.Closed and Release. take owns the connection. DetachIdle returns
	// their number. Live hand-over to a successor process uses it.
	//
	// Each connection is a *net.TCPConn or a *net.UnixConn. DetachIdle never
	// detaches TLS connections, connections that a listener has wrapped, and those
	// of ServeConn, whose caller waits for them.
	DetachIdle(limit int, take func(c net.Conn, leftover []byte)) int
	// Shutdown ends the accept loops and closes the idle connections. It waits
	// until the others have finished their requests. If ctx ends first, it closes
	// the remaining connections and returns ctx's error.
	Shutdown(ctx context.Context) error
	Stats() Stats
	Loops() []LoopStats
}

// An Adopter is an Engine that drives sockets itself and can adopt a descriptor.
type Adopter interface {
	// Adopt serves the connected stream socket fd like an accepted connection. The
	// engine owns fd from now on, even if Adopt returns an error. leftover is
	// input that was read before (live hand-over); it is copied, and fed first.
	// Engines compare Acceptors: use one for many connections.
	Adopt(fd int, leftover []byte, a Acceptor) error
}

// A Prober is an Engine that can check whether its loops work. Engines with loops
// implement it; root's Server calls it.
type Prober interface {
	// Probe returns nil when every loop has run one pass after the call, or when
	// no loop runs. It returns ctx's error if ctx ends first.
	Probe(ctx context.Context) error
}

// ErrShutdown is returned by Serve, ServeConn and Adopt of an engine that was shut
// down before.
var ErrShutdown = errors.New("sluice: engine is shut down")
