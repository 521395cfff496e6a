// Package engine is the seam between the bytes of a connection and the state
// machine that gives them meaning.
//
// An engine moves bytes between sockets and a Protocol; a Protocol owns no
// descriptor and does no waiting of its own. Root's serverConn implements
// Protocol (HTTP/1.1); the packages below this one implement Engine.
package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// Next is what a Protocol wants after a step.
type Next uint8

const (
	// Read: feed more input. Feed returns it only with all of its input used.
	Read Next = iota
	// Run: a whole request is there; call Run. The rest of the input stays
	// with the engine until Run has returned.
	Run
	// Close: write what is pending, then close. The engine lingers (half-closes
	// and discards input for a bounded time) when input is left over, so that
	// the last answer is not lost to a reset (RFC 9112 section 9.6).
	Close
	// CloseLinger: as Close, and linger whether or not input is left: the peer
	// is known to be still sending.
	CloseLinger
	// Abort: close at once without writing what is pending.
	Abort
	// Detach: write what is pending, then give the connection and its unread
	// input to Protocol.Detached, on a goroutine that may block for ever.
	Detach
	// Switch: write what is pending, then give the connection and its unread
	// input to the Protocol that Switcher.Successor returns. Only Feed, Run and
	// Prompted of a Switcher may return it.
	Switch
)

// A Protocol is one connection's brain. The engine never calls it
// concurrently, with the exception that Conn's callbacks name.
type Protocol interface {
	// Feed parses input. It consumes used bytes of in and keeps no reference
	// to in. With next == Read, used == len(in).
	Feed(in []byte) (used int, next Next)
	// Run handles the request that Feed completed and appends the answer to
	// out, which it returns. It may block for as long as it likes, and may use
	// Conn.Read and Conn.Write meanwhile; Conn.Write callers must hand over the
	// bytes in out first, to keep the order. Run never panics.
	Run(out []byte) ([]byte, Next)
	// Pause says that the engine is about to wait for input: everything that
	// an idle connection need not hold is given back. It reports whether the
	// connection is between requests: nothing of the next one has come and
	// nothing of the last one is left, so that closing it, or handing it to
	// another process, loses nothing.
	Pause() (isIdle bool)
	// HalfClosed says that the peer will send no more (FIN) although the
	// engine had been asked to Read. The bytes to send before closing are
	// appended to out.
	HalfClosed(out []byte) []byte
	// TimedOut says that the deadline of SetReadDeadline passed while waiting
	// for input; there is none from now on. The bytes to send (a 408, a ping, or
	// none) are appended to out. next is Close, CloseLinger or Abort, or Read to
	// go on: until another deadline, if TimedOut sets one.
	TimedOut(out []byte) ([]byte, Next)
	// Detached takes the connection over after Detach. Reads on c return the
	// unread input first. The engine no longer knows the connection; it closes
	// nothing. Called without locks on the connection's goroutine.
	Detached(c net.Conn)
	// Closed is the last call, made exactly once, after the descriptor was
	// closed or detached. err is nil for an orderly end.
	Closed(err error)
}

// A Starter is a Protocol that wants to be asked before the first input. Engines
// call Start once, right after Open, where a protocol implements it; Detach and
// Abort are obeyed at once, Read goes on as usual. Root uses it for protocols
// negotiated by ALPN, whose server may speak first.
type Starter interface {
	Start() Next
}

// A Switcher is a Protocol after which another one may serve the connection.
type Switcher interface {
	// Successor is called once after Switch. Nothing else is called on the
	// Protocol then, not even Closed: the successor is told of the end. The
	// successor is asked to Start where it is a Starter, and is fed the unread
	// input. Deadlines and the write time-out that were set stay set. Where it
	// is a Sleeper, the Acceptor's Wake tells by the Memo whom to return.
	//
	// DetachIdle does not give away connections that have switched.
	Successor() Protocol
}

// A Rewinder is a Protocol that can give back the beginning of a request. Where
// Pause returned false, an engine may ask CanRewind, and as long as nothing else was
// called since, Rewind: it returns the input that was fed since the end of the last
// request, which is the caller's, and the connection is between requests. Root's
// serverConn implements it for a head that is not complete; DetachIdle calls it.
type Rewinder interface {
	CanRewind() bool
	Rewind() []byte
}

// A Sleeper is a Protocol whose idle connections need nothing but a Memo. After
// a Pause that returned true, an engine may call Sleep and forget the Protocol,
// which gives itself back to where it came from: nothing else is called on it,
// not even Closed. When something happens on the connection, the engine gets
// another one from its Acceptor, which is a Waker. Deadlines and the write
// time-out that were set stay set. Root's serverConn implements it; the event
// engines call it.
type Sleeper interface {
	Sleep() Memo
}

// A Waker is an Acceptor whose Protocols are Sleepers.
type Waker interface {
	// Wake returns a Protocol in the state that Sleep left. It makes no call on
	// c and does not block.
	Wake(c Conn, m Memo) Protocol
}

// A Memo is what is remembered of an idle connection. It holds no pointers, so
// that a million of them are nothing to the garbage collector. Its fields are
// the Protocol's business.
type Memo struct {
	ID     uint64
	Served uint64
	Opened int64
}

// A Prompted is a Protocol that may have something to say without having been
// asked. After a call of Prompter.Prompt, the engine calls Prompted once, when
// the connection is in no other call and everything that was to be written is
// written. It counts as a Run in all respects; several calls of Prompt before
// it make one call of it. The answer Read resumes what the connection was
// doing.
type Prompted interface {
	Prompted(out []byte) ([]byte, Next)
}

// A Prompter makes the engine call Protocol.Prompted. It may be called on any
// goroutine, never blocks, and does nothing when the connection has ended.
type Prompter interface {
	Prompt()
}

// A Conn is what a Protocol may ask of its connection. Implemented by engines,
// called by root.
type Conn interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr

	// NetConn returns the connection as the listener accepted it, or what an
	// engine that has only a descriptor makes for the caller. Reading from it
	// while the engine serves it steals input or fails; it is for addresses,
	// TLS state and identity (Server.ConnState). It is valid for as long as the
	// caller likes, also when the Conn is not any more.
	NetConn() net.Conn
	// IsSocket tells whether the connection is nothing but a socket: NetConn
	// then has nothing to tell beyond the addresses, and may have to be made.
	IsSocket() bool

	// Prompter returns what has Protocol.Prompted called. It may be kept for
	// as long as the caller likes.
	Prompter() Prompter

	// Blocking returns a net.Conn over the same socket for the time of a Run:
	// reads return the engine's unread input first, writes go straight to the
	// socket. Close on it makes the engine close the connection after Run.
	Blocking() net.Conn

	// Read reads input during Run: first what the engine holds, then from the
	// socket, waiting for it. It honours SetReadDeadline and returns
	// os.ErrDeadlineExceeded when that passes, io.EOF after the peer's FIN.
	Read(p []byte) (int, error)
	// Fill waits until Buffered returns more than it does now, during Run. It
	// honours SetReadDeadline as Read does, and returns io.EOF after the
	// peer's FIN. Engines may refuse to hold more than ReadBufferSize bytes
	// (io.ErrShortBuffer): Discard before you Fill.
	Fill() error
	// Buffered returns the input that the engine holds and Read would return
	// without touching the socket. Valid until the next Read, Discard or the
	// end of Run.
	Buffered() []byte
	// Discard consumes n bytes of Buffered.
	Discard(n int)

	// Write writes all of p during Run, waiting for the peer where it must.
	// It honours SetWriteTimeout.
	Write(p []byte) (int, error)
	// WriteBuffers writes all of v in one go (writev on plain sockets). It
	// consumes v as net.Buffers does.
	WriteBuffers(v *net.Buffers) (int64, error)
	// SendFile has a part of a file sent behind what Run appends to out, before
	// anything else. It returns at once; on every kind of connection it may be
	// called at most once in a Run, with no Write or WriteBuffers after it.
	//
	// The engine keeps the file until it has sent it or the connection has
	// ended, and then closes Done, before Protocol.Closed. A file that ends
	// before Size bytes ends the connection with ErrShortFile. The write
	// time-out begins again whenever the peer takes some of it. Bare sockets
	// are sent to without a copy where the system can do that.
	SendFile(f File)

	// SetReadDeadline sets until when the engine waits for input: now+timeout,
	// in Nanos; timeout 0 means for ever. Engines may arm lazily, and never
	// report early. While they write what a Run has left them to write, the time
	// does not count. Cheap enough to call for every request.
	SetReadDeadline(now int64, timeout time.Duration)
	// SetWriteTimeout bounds every blocked write, counted from when it blocks
	// (0: for ever).
	SetWriteTimeout(timeout time.Duration)

	// OnPeerGone arranges that f is called, once, on any goroutine, when the
	// peer closes or resets the connection while Run is going on. The
	// arrangement ends with stop or with Run, whichever comes first; f is not
	// running any more when Run's caller gets control back.
	OnPeerGone(f func()) (stop func())
}

// An Acceptor gives each new connection its protocol. Root's Server implements
// it; engines call it.
type Acceptor interface {
	// Open is called once per accepted connection, after the TLS handshake
	// where there is one, on the goroutine that will serve it. A nil Protocol
	// refuses the connection: refusal is written as far as it goes without
	// waiting, and the connection closed.
	Open(c Conn) (p Protocol, refusal []byte)
	// Admit is called before anything is spent on a connection (before the TLS
	// handshake). c is for its addresses, and for the time of the call. false refuses it; refusal is written in plain text if the
	// connection is not TLS. Every admitted connection is Released once, after
	// Protocol.Closed or where Open refused it.
	Admit(c net.Conn) (ok bool, refusal []byte)
	Release(c net.Conn)
	// AcceptError reports a failed Accept that is worth a retry.
	AcceptError(err error)
}

// Hooks are what an Acceptor wants beyond its methods. Each may be nil. They are
// called on the engine's goroutines and must not block.
type Hooks struct {
	// Arrived is called for every connection as soon as the engine has it,
	// before Divert and Admit; Departed once for each of those when the engine
	// has nothing more to do with it: after Closed and Release, where these are
	// called.
	Arrived, Departed func()
	// Divert is asked for every connection that was accepted from a listener and
	// is nothing but a socket of package net (not for those of TLS, ServeConn,
	// Adopt and AdoptConn). True: it is somebody else's now, who has duplicated
	// or sent fd; the engine closes its descriptor and forgets it. Divert must
	// not call the engine.
	Divert func(fd int) bool
}

// A Hooker is an Acceptor that has Hooks. Engines ask for them once in a Serve,
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
	MaxWorkers        int           // goroutines (or stacks) that run handlers; 0: no limit
	Loops             int           // event loops, where an engine has them; 0: as the engine finds best
	MaxIdleWorkerTime time.Duration // how long an idle worker is kept; 0: 10 s
	// PlainOnly: somebody keeps NetConn and may close it at any time.
	// Goroutine engines then serve every connection through its methods alone,
	// event engines keep one NetConn for each.
	PlainOnly bool
	// SparesDeadlines: goroutine engines set a deadline on a NetConn that they
	// did not make only where a time-out asks for it. Connections that wait
	// without one then hold their buffers, or with ReduceMemory none, which
	// costs another read.
	SparesDeadlines, ReduceMemory bool
}

// WithDefaults returns o with its zero fields resolved as they say.
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

// A TLSListener accepts TLS connections. Engines that drive sockets themselves
// accept from the Listener inside and make the TLS connection on their own; for
// others it is what tls.NewListener returns.
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

// LoopStats is a snapshot of one of the parts that an engine divides its
// connections among: an event loop and its workers. Engines without loops are
// one part.
type LoopStats struct {
	Connections int // open, of this part
	Active      int // of those, claimed by a worker or in the middle of a request
	Queued      int // ready and waiting for a worker
	Workers     int // goroutines, or stacks, that run protocols
	IdleWorkers int // of those, waiting for work
	Buffers     int // input and output buffers that connections hold (event engines: while they wait)
}

// Accepting is an Engine for which closing a listener is not enough to end its
// accepting: the socket may live on in another process. Event engines implement
// it, root's Server calls it.
type Accepting interface {
	// StopAccepting makes the Serve of ln return nil. When it has returned, no
	// connection is accepted from ln any more, which is still open.
	StopAccepting(ln net.Listener)
}

// An Engine serves connections.
type Engine interface {
	// Name is what users select the engine by ("perconn", "epoll").
	Name() string
	// Serve accepts from ln until ln fails for good or Shutdown is called;
	// then it returns ln's error, or nil after Shutdown. It does not close ln
	// before that. Several Serves may run at once.
	Serve(ln net.Listener, a Acceptor) error
	// ServeConn serves one connection and returns when it is closed, or detached
	// by a Run: Protocol.Detached then has a goroutine of its own. One that
	// Starter.Start detaches it serves to the end. leftover is input that was
	// read before (live hand-over); it is fed first. The error is what
	// Protocol.Closed gets.
	ServeConn(c net.Conn, leftover []byte, a Acceptor) error
	// CloseOnNextResponse makes every connection's CloseRequested true; a
	// Protocol that sees it answers its request in hand with "close". Idle
	// connections are not touched.
	CloseOnNextResponse()
	// Nudge prompts every connection, as its Prompter does: a Protocol that
	// sees CloseRequested may tell its peer. It goes in portions, so that other
	// connections have their turns meanwhile, and returns when all were
	// prompted.
	Nudge()
	// CloseRequested tells whether CloseOnNextResponse or Shutdown was called.
	CloseRequested() bool
	// Range calls f for every connection until f returns false.
	Range(f func(Conn) bool)
	// AdoptConn serves c as if it had been accepted, and returns at once. The
	// engine owns c from now on, also when AdoptConn returns an error. leftover
	// is input that was read before (live hand-over); it is copied, and fed
	// first. Acceptors are compared: use one for many connections.
	AdoptConn(c net.Conn, leftover []byte, a Acceptor) error
	// DetachIdle interrupts the wait of connections that are between requests,
	// or whose Protocol is a Rewinder that can make them so; at most limit of
	// them, unless that is negative. It gives each, with input that was read and
	// not yet used, to take, after Protocol.Closed and Release, and returns their
	// number. Live hand-over to a successor process is built on it.
	//
	// They are a *net.TCPConn or a *net.UnixConn, nothing else is given: no TLS,
	// nothing that a listener has wrapped, and nothing of ServeConn's, whose
	// caller waits for it.
	DetachIdle(limit int, take func(c net.Conn, leftover []byte)) int
	// Shutdown closes the listeners' accept loops and the idle connections at
	// once, waits for the others to finish their requests and closes whatever
	// is left when ctx ends; it then returns ctx's error.
	Shutdown(ctx context.Context) error
	Stats() Stats
	Loops() []LoopStats
}

// An Adopter is an Engine that drives sockets itself and can take one over.
type Adopter interface {
	// Adopt serves the connected stream socket fd as if it had been accepted.
	// The engine owns fd from now on, also when Adopt returns an error.
	// leftover is input that was read before (live hand-over); it is copied, and
	// fed first. Acceptors are compared: use one for many connections.
	Adopt(fd int, leftover []byte, a Acceptor) error
}

// A Prober is an Engine that can tell whether it still works. Engines with loops
// implement it, root's Server calls it.
type Prober interface {
	// Probe returns nil when every loop has turned once after the call, ctx's
	// error if that ends before, and nil where no loop runs.
	Probe(ctx context.Context) error
}

// ErrShutdown is returned by Serve and ServeConn of an engine that was shut
// down before.
var ErrShutdown = errors.New("sluice: engine is shut down")
