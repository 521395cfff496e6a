//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// An echoAcceptor serves a protocol that sends everything back. Its connections
// sleep between two inputs.
type echoAcceptor struct {
	pool     sync.Pool
	idle     time.Duration
	errors   chan error // what Accept failed with; buffered
	released chan net.Addr
}

func newEcho() *echoAcceptor {
	return &echoAcceptor{errors: make(chan error, 100), released: make(chan net.Addr, 100)}
}

func (a *echoAcceptor) Admit(net.Conn) (bool, []byte) { return true, nil }
func (a *echoAcceptor) Release(c net.Conn) {
	select {
	case a.released <- c.RemoteAddr():
	default:
	}
}
func (a *echoAcceptor) AcceptError(err error) { a.errors <- err }
func (a *echoAcceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	c.SetReadDeadline(clock.Nanos(), a.idle)
	return a.Wake(c, engine.Memo{}), nil
}

func (a *echoAcceptor) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	e, _ := a.pool.Get().(*echo)
	if e == nil {
		e = &echo{}
	}
	e.acceptor, e.conn, e.memo = a, c, m
	return e
}

type echo struct {
	acceptor *echoAcceptor
	conn     engine.Conn
	memo     engine.Memo
	input    [64]byte
	length   int
}

func (e *echo) Capabilities() engine.Capabilities { return engine.CanSleep }

func (e *echo) Feed(in []byte) (int, engine.Next) {
	e.length = copy(e.input[:], in)
	return e.length, engine.Run
}

func (e *echo) Run(out []byte) ([]byte, engine.Next) {
	e.memo.Served++
	e.conn.SetReadDeadline(clock.Nanos(), e.acceptor.idle)
	return append(out, e.input[:e.length]...), engine.Read
}

func (e *echo) Pause() bool                               { return true }
func (e *echo) HalfClosed(out []byte) []byte              { return out }
func (e *echo) TimedOut(out []byte) ([]byte, engine.Next) { return out, engine.Abort }
func (e *echo) Detached(c net.Conn)                       { c.Close() }
func (e *echo) Closed(error)                              { e.acceptor.pool.Put(e) }
func (e *echo) Sleep() (engine.Memo, bool) {
	m := e.memo
	e.acceptor.pool.Put(e)
	return m, true
}

func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln.(*net.TCPListener)
}

func dial(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends text and expects it back.
func ask(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	expect(t, c, text)
}

func expect(t testing.TB, c net.Conn, text string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	p := make([]byte, len(text))
	for n := 0; n < len(p); {
		m, err := c.Read(p[n:])
		if err != nil {
			t.Fatalf("got %q and %v, want %q", p[:n], err, text)
		}
		n += m
	}
	if string(p) != text {
		t.Fatalf("got %q, want %q", p, text)
	}
}

// eventually polls until claim is true.
func eventually(t testing.TB, what string, claim func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !claim(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}
