// Package nettest makes peers and listeners for tests: in memory, broken, slow.
// Tests alone import it.
package nettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TCPPair returns both ends of a TCP connection, which the end of the test closes.
func TCPPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near.(*net.TCPConn), far.(*net.TCPConn)
}

// A Listener is an in-memory net.Listener. Its connections are net.Pipes: every
// write waits for the reads that take it.
type Listener struct {
	pending chan net.Conn
	closed  chan struct{}
	once    sync.Once
	// Wrap, where it is not nil, replaces the server's end of each connection.
	// Set it before the first Dial.
	Wrap func(net.Conn) net.Conn
}

// NewListener returns a listener that is ready to be dialled.
func NewListener() *Listener {
	return &Listener{pending: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects, and returns once the connection was accepted.
func (l *Listener) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	if l.Wrap != nil {
		server = l.Wrap(server)
	}
	select {
	case l.pending <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pending:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }

// NoDeadlines is a connection that accepts deadlines and ignores them, as many
// hand-made ones do.
type NoDeadlines struct{ net.Conn }

// SetDeadline does nothing.
func (NoDeadlines) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (NoDeadlines) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (NoDeadlines) SetWriteDeadline(time.Time) error { return nil }

// A FailingListener returns Errors from Accept, one after the other, before it
// accepts anything.
type FailingListener struct {
	net.Listener
	mu     sync.Mutex
	Errors []error // set before Serve
}

// Accept implements net.Listener.
func (l *FailingListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	if len(l.Errors) > 0 {
		err := l.Errors[0]
		l.Errors = l.Errors[1:]
		l.mu.Unlock()
		return nil, err
	}
	l.mu.Unlock()
	return l.Listener.Accept()
}

// A CorkedConn sends what was written when it reads, or at Flush: all in one piece. Errors of
// writing are those of the next Read.
type CorkedConn struct {
	net.Conn
	pending []byte
}

// Write implements net.Conn.
func (c *CorkedConn) Write(p []byte) (int, error) {
	c.pending = append(c.pending, p...)
	return len(p), nil
}

// Read implements net.Conn.
func (c *CorkedConn) Read(p []byte) (int, error) {
	c.Flush()
	return c.Conn.Read(p)
}

// Flush sends what was written.
func (c *CorkedConn) Flush() {
	_, _ = c.Conn.Write(c.pending)
	c.pending = nil
}

// WriteCut writes p in pieces of size bytes. After each piece but the last,
// wait is called with the number of bytes written so far.
func WriteCut(w io.Writer, p []byte, size int, wait func(written int)) error {
	for written := 0; written < len(p); {
		n, err := w.Write(p[written:min(written+size, len(p))])
		if err != nil {
			return err
		}
		if written += n; written < len(p) {
			wait(written)
		}
	}
	return nil
}

// FreeAddr returns an address on 127.0.0.1 that nobody listens on, for a server
// that makes its listener itself. Nobody else is likely to take it meanwhile: the
// port is a random one below those that systems give to clients.
func FreeAddr() (string, error) {
	const lowest, highest, tries = 10_000, 32_000, 100
	var errs []error
	for range tries {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(highest-lowest)))
		ln, err := net.Listen("tcp4", addr)
		if err == nil {
			return addr, ln.Close()
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// ListenMultipath returns a listener on 127.0.0.1 for Multipath TCP. The error is
// errors.ErrUnsupported where the system says that it has none.
func ListenMultipath() (net.Listener, error) {
	enabled, _ := os.ReadFile("/proc/sys/net/mptcp/enabled") // without the file there is none
	if string(bytes.TrimSpace(enabled)) != "1" {
		return nil, errors.ErrUnsupported
	}
	var config net.ListenConfig
	config.SetMultipathTCP(true)
	return config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
}
