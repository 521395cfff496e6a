//go:build linux && (amd64 || arm64)

package epoll

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// An answerer is an Acceptor whose protocols answer as its functions say. They
// sleep between two inputs, with a deadline.
type answerer struct {
	answer   func(c engine.Conn, out []byte) []byte
	prompted []byte
	opened   chan engine.Prompter // nil: nobody wants to know
}

// echo sends everything back.
func echo(c engine.Conn, out []byte) []byte {
	in := c.Buffered()
	out = append(out, in...)
	c.Discard(len(in))
	return out
}

// Admit implements engine.Acceptor, as the other methods do.
func (a *answerer) Admit(net.Conn) (bool, []byte) { return true, nil }
func (a *answerer) Release(net.Conn)              {}
func (a *answerer) AcceptError(error)             {}
func (a *answerer) Open(c engine.Conn) (engine.Protocol, []byte) {
	if a.opened != nil {
		a.opened <- c.Prompter()
	}
	return a.Wake(c, engine.Memo{}), nil
}

// Wake implements engine.Waker.
func (a *answerer) Wake(c engine.Conn, _ engine.Memo) engine.Protocol {
	if v := answers.Get(); v != nil {
		p := v.(*answer)
		p.answerer, p.conn = a, c
		return p
	}
	return &answer{a, c}
}

// An answer is the protocol of one connection.
type answer struct {
	answerer *answerer
	conn     engine.Conn
}

func (p *answer) Feed([]byte) (int, engine.Next) { return 0, engine.Run }
func (p *answer) Run(out []byte) ([]byte, engine.Next) {
	p.conn.SetReadDeadline(clock.Nanos(), time.Hour)
	return p.answerer.answer(p.conn, out), engine.Read
}

func (p *answer) Prompted(out []byte) ([]byte, engine.Next) {
	return append(out, p.answerer.prompted...), engine.Read
}

func (p *answer) Capabilities() engine.Capabilities         { return engine.CanSleep | engine.CanPrompt }
func (p *answer) Pause() bool                               { return true }
func (p *answer) HalfClosed(out []byte) []byte              { return out }
func (p *answer) TimedOut(out []byte) ([]byte, engine.Next) { return out, engine.Abort }
func (p *answer) Detached(c net.Conn)                       { _ = c.Close() }
func (p *answer) Closed(error)                              {}
func (p *answer) Sleep() (engine.Memo, bool) {
	p.conn = nil
	answers.Put(p)
	return engine.Memo{}, true
}

// serveOn has an engine serve a until the test ends, and returns its address.
func serveOn(t testing.TB, a engine.Acceptor) (engine.Engine, net.Addr) {
	t.Helper()
	return serveWith(t, a, engine.Options{Loops: 1})
}

func serveWith(t testing.TB, a engine.Acceptor, options engine.Options) (engine.Engine, net.Addr) {
	t.Helper()
	ln := listen(t)
	e := newEngine(options)
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln, a) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-served
		_ = ln.Close()
	})
	return e, ln.Addr()
}

// rawClient is a client's end that costs this process only a descriptor.
func rawClient(t testing.TB, addr net.Addr, i int) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	// See enginetest's loopback for the reason of the odd address.
	local := &syscall.SockaddrInet4{Addr: [4]byte{127, 79, byte(i >> 8), byte(i)}}
	remote := &syscall.SockaddrInet4{Port: addr.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, local); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, remote); err != nil {
		t.Fatal(err)
	}
	return fd
}

// roundTrip sends request and reads n bytes into p.
func roundTrip(t testing.TB, fd int, request, p []byte, n int) {
	if _, err := syscall.Write(fd, request); err != nil {
		t.Fatal(err)
	}
	for n > 0 {
		m, err := syscall.Read(fd, p[:min(n, len(p))])
		if m <= 0 || err != nil {
			t.Fatal(m, err)
		}
		n -= m
	}
}
