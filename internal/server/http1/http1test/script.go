// Package http1test has the engine's side of connections for tests of HTTP/1.1: without
// sockets, and without an engine.
package http1test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A Conn is an engine.Conn, and its engine, that feeds a script piece by piece
// and keeps what is answered. The zero value is ready.
type Conn struct {
	Pieces [][]byte // not yet received
	Sent   []byte
	unread []byte // received and not yet used
	out    []byte

	ReadTimeout, WriteTimeout time.Duration // that were set last
	IsTimingOut               bool          // no more input comes, instead of a FIN

	acceptor engine.Acceptor
	Sleeps   bool // the engine has protocols sleep
	Reuses   bool // the engine retires them, and uses them again
	IsOver   bool // must not be asked anything any more
	NetConns int  // calls of NetConn

	DropsFiles bool // files are taken, and none of their bytes are sent
	hasFile    bool // that the engine sends after the Run
}

var _ engine.Conn = (*Conn)(nil)

// LocalAddr implements engine.Conn.
func (c *Conn) LocalAddr() net.Addr {
	c.mustLive()
	return NetConn{}.LocalAddr()
}

// RemoteAddr implements engine.Conn.
func (c *Conn) RemoteAddr() net.Addr {
	c.mustLive()
	return NetConn{}.RemoteAddr()
}

// NetConn implements engine.Conn.
func (c *Conn) NetConn() net.Conn {
	c.mustLive()
	c.NetConns++
	return NetConn{c}
}

// mustLive fails where c is used, which the engine may have given to others.
func (c *Conn) mustLive() {
	if c.IsOver {
		panic("the conn is used after its end")
	}
}

// mustNotHaveFile fails where bytes are written that belong before a file.
func (c *Conn) mustNotHaveFile() {
	if c.hasFile {
		panic("a write after a file")
	}
}

// IsSocket implements engine.Conn.
func (c *Conn) IsSocket() bool { return true }

// CanMove implements engine.Conn.
func (c *Conn) CanMove() bool { return true }

// Prompter implements engine.Conn.
func (c *Conn) Prompter() engine.Prompter { return nil }

// Workers implements engine.Conn.
func (c *Conn) Workers() engine.Workers { return nil }

// Target implements engine.Conn.
func (c *Conn) Target() engine.Target { return engine.Target{} }

// Blocking implements engine.Conn.
func (c *Conn) Blocking() net.Conn { return NetConn{c} }

// Buffered implements engine.Conn.
func (c *Conn) Buffered() []byte { return c.unread }

// Discard implements engine.Conn.
func (c *Conn) Discard(n int) { c.unread = c.unread[n:] }

// Fill implements engine.Conn.
func (c *Conn) Fill() error {
	if len(c.Pieces) == 0 {
		if c.IsTimingOut {
			return os.ErrDeadlineExceeded
		}
		return io.EOF
	}
	c.unread = append(append([]byte(nil), c.unread...), c.Pieces[0]...)
	c.Pieces = c.Pieces[1:]
	return nil
}

// Read implements engine.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		if err := c.Fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Write implements engine.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.mustNotHaveFile()
	c.Sent = append(c.Sent, p...)
	return len(p), nil
}

// WriteReady implements engine.Conn.
func (c *Conn) WriteReady(*net.Buffers) int64 { return 0 }

// WriteBuffers implements engine.Conn.
func (c *Conn) WriteBuffers(v *net.Buffers) (n int64, err error) {
	c.mustNotHaveFile()
	for _, b := range *v {
		c.Sent = append(c.Sent, b...)
		n += int64(len(b))
	}
	*v = (*v)[len(*v):]
	return n, nil
}

// SetReadDeadline implements engine.Conn.
func (c *Conn) SetReadDeadline(_ int64, timeout time.Duration) { c.ReadTimeout = timeout }

// SetWriteTimeout implements engine.Conn.
func (c *Conn) SetWriteTimeout(timeout time.Duration) { c.WriteTimeout = timeout }

// OnPeerGone implements engine.Conn.
func (c *Conn) OnPeerGone(func()) {}

// A NetConn is what handlers see of a Conn.
type NetConn struct{ *Conn }

// LocalAddr implements net.Conn.
func (NetConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
}

// RemoteAddr implements net.Conn.
func (NetConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: 40000}
}

// Close implements net.Conn.
func (NetConn) Close() error { return nil }

// SetDeadline implements net.Conn.
func (NetConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (NetConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (NetConn) SetWriteDeadline(time.Time) error { return nil }

// Open makes the protocol of a connection to a.
func (c *Conn) Open(a engine.Acceptor) engine.Protocol {
	c.acceptor = a
	p, _ := a.Open(c)
	return p
}

// Pause is what the engine does before it waits. It returns the protocol that
// goes on.
func (c *Conn) Pause(p engine.Protocol) engine.Protocol {
	isIdle := p.Pause()
	if isIdle && c.Sleeps {
		m, _ := p.(engine.Sleeper).Sleep()
		return c.acceptor.(engine.Waker).Wake(c, m)
	}
	if r, can := p.(engine.Reusable); can && isIdle && c.Reuses && !r.Reuse(c, r.Retire(), 0) {
		panic("a protocol does not know what it has returned")
	}
	return p
}

// Feed has p take all of in, and returns what it wants then.
func (c *Conn) Feed(t testing.TB, p engine.Protocol, in []byte) engine.Next {
	c.unread = in
	for len(c.unread) > 0 {
		used, next := p.Feed(c.unread)
		if next == engine.Read && used != len(c.unread) {
			t.Fatalf("Feed wants to read on although it used %d of %d bytes", used, len(c.unread))
		}
		c.unread = c.unread[used:]
		for next == engine.Run {
			c.out, next = p.Run(c.out[:0])
			c.hasFile = false
			if next != engine.Abort {
				c.Sent = append(c.Sent, c.out...)
			}
		}
		if next != engine.Read {
			return next
		}
	}
	return engine.Read
}

// Converse serves a script that arrives in pieces, up to the end of the
// connection, and returns everything that was sent.
func (c *Conn) Converse(t testing.TB, a engine.Acceptor, pieces ...[]byte) (sent string, last engine.Next) {
	p := c.Open(a)
	c.Pieces = pieces
	for len(c.Pieces) > 0 && last == engine.Read {
		in := c.Pieces[0]
		c.Pieces = c.Pieces[1:]
		last = c.Feed(t, p, in)
		if last == engine.Read {
			p = c.Pause(p)
		}
	}
	if last == engine.Read {
		if c.IsTimingOut {
			c.out, last = p.TimedOut(c.out[:0])
			c.Sent = append(c.Sent, c.out...)
		} else {
			c.Sent = append(c.Sent, p.HalfClosed(nil)...)
		}
	}
	p.Closed(nil)
	return string(c.Sent), last
}

// SendFile implements engine.Conn. No engine is there that could write the file when Run has
// returned.
func (c *Conn) SendFile(f engine.File) {
	c.hasFile = true
	if err := f.Release(); err != nil {
		panic(err)
	}
	if !c.DropsFiles {
		panic("scripts do not send files")
	}
}

// A Steady is a connection that goes on for ever and costs nothing itself.
type Steady struct {
	Conn
	Protocol engine.Protocol
	buffer   []byte
}

// OpenSteady returns a connection to a. sleeps: its engine has protocols sleep.
func OpenSteady(a engine.Acceptor, sleeps bool) *Steady {
	c := &Steady{buffer: make([]byte, 0, 64<<10)}
	c.Sleeps = sleeps
	c.Protocol = c.Open(a)
	return c
}

// RoundTrip feeds in, which must be whole requests, and returns the answers.
func (c *Steady) RoundTrip(tb testing.TB, in []byte) []byte {
	out := c.buffer
	c.unread = in
	for len(c.unread) > 0 {
		used, next := c.Protocol.Feed(c.unread)
		c.unread = c.unread[used:]
		for next == engine.Run {
			out, next = c.Protocol.Run(out)
			c.hasFile = false
		}
		if next != engine.Read {
			tb.Fatalf("the connection ends with %v: %q", next, out)
		}
	}
	c.Protocol = c.Pause(c.Protocol)
	return out
}
