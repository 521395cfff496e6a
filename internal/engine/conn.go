package engine

import (
	"net"
	"time"
)

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
	// IsSocket reports whether the connection is a bare socket. NetConn then offers
	// nothing beyond the addresses, and calling it may allocate.
	IsSocket() bool
	// CanMove reports whether DetachIdle may give the connection away, as far as its engine is
	// concerned.
	CanMove() bool

	// Prompter returns the connection's Prompter, which may be retained for any
	// time.
	Prompter() Prompter

	// Target returns the name under which Cast finds the connection; zero if this
	// engine cannot cast.
	Target() Target
	// Workers returns the workers that run the Tasks of this connection. They may be
	// retained for any time.
	Workers() Workers

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
	// WriteReady writes, during Run, and in Open and Unpack, as much of v as goes
	// without waiting, and consumes that. The rest is to be appended to out. It
	// writes nothing if the engine cannot tell (TLS, some systems), or if writing
	// fails, which the write of out then reports. Any goroutine may call it, one at a
	// time.
	WriteReady(v *net.Buffers) int64
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
	// replaces f; nil ends the arrangement, and so does the end of Run: f has returned
	// then, or is never called.
	OnPeerGone(f func())
}
