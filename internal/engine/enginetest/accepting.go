package enginetest

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func acceptScenarios() []scenario {
	return []scenario{
		{"refused by Admit", testAdmitRefuses, 0},
		{"refused by Open", testOpenRefuses, 0},
		{"accept errors", testAcceptErrors, 0},
		{"listener fails", testListenerFails, 0},
		{"two listeners", testTwoListeners, 0},
		{"close on next response", testCloseOnNextResponse, 0},
		{"unused engine", testUnused, 0},
	}
}

func testAdmitRefuses(t *testing.T, f *fixture) {
	a := newAcceptor()
	var busy atomic.Bool
	a.admit = func() bool { return !busy.Load() }
	a.refusal = "4:busy"
	s := f.start(t, a, options())
	s.connect(t).ask(t, "echo x", "x")
	busy.Store(true)
	for range 3 {
		if f.offers(handshakes) {
			c, err := s.dial()
			if err == nil {
				_ = c.Close()
				t.Fatal("the handshake succeeded")
			}
			if strings.Contains(err.Error(), "busy") {
				t.Errorf("plain text on a TLS connection: %v", err)
			}
			continue
		}
		p := s.connect(t)
		p.expect(t, "busy")
		p.expectEnd(t)
	}
	busy.Store(false)
	s.connect(t).ask(t, "echo x", "x")
	if n := s.opened.Load(); n != 2 {
		t.Errorf("Open called %d times, want 2", n)
	}
}

func testOpenRefuses(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.refuseOpen = true
	a.refusal = "4:busy"
	s := f.start(t, a, options())
	for range 3 {
		p := s.connect(t)
		p.expect(t, "busy")
		p.expectEnd(t)
	}
	s.eventually(t, "Release", func() bool { return s.released.Load() == 3 })
}

func testAcceptErrors(t *testing.T, f *fixture) {
	a := newAcceptor()
	s := f.startOn(t, a, options(), func(ln net.Listener) net.Listener {
		return &nettest.FailingListener{Listener: ln, Errors: []error{
			&net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE},
			&net.OpError{Op: "accept", Net: "tcp", Err: syscall.ECONNABORTED},
		}}
	})
	s.connect(t).ask(t, "echo x", "x")
	if n := a.acceptErrors.Load(); n != 2 {
		t.Errorf("AcceptError called %d times, want 2", n)
	}
}

func testListenerFails(t *testing.T, f *fixture) {
	failure := errors.New("out of order")
	s := f.startOn(t, newAcceptor(), options(), func(ln net.Listener) net.Listener {
		return &nettest.FailingListener{Listener: ln, Errors: []error{failure}}
	})
	if err := s.serveError(t); err != failure {
		t.Errorf("Serve: %v, want %v", err, failure)
	}
}

func testTwoListeners(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), briefOptions())
	ln := nettest.NewListener()
	served := make(chan error, 1)
	go func() { served <- s.engine.Serve(ln, s.handler) }()
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(frames("echo x")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 3)
	if _, err := c.Read(answer); err != nil || string(answer) != "1:x" {
		t.Errorf("got %q, %v", answer, err)
	}
	s.connect(t).ask(t, "echo y", "y")
	s.shutdown(t)
	if err := <-served; err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if err := s.serveError(t); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

func testCloseOnNextResponse(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	if s.engine.Life().Has(engine.StageClosing) {
		t.Error("it is closing at first")
	}
	p := s.connect(t)
	p.ask(t, "echo x", "x")
	s.engine.CloseOnNextResponse()
	if !s.engine.Life().Has(engine.StageClosing) {
		t.Error("it is not closing after CloseOnNextResponse")
	}
	p.ask(t, "echo y", "y")
	p.expectEnd(t)
	q := s.connect(t)
	q.ask(t, "echo z", "z")
	q.expectEnd(t)
}

func testUnused(t *testing.T, f *fixture) {
	e := f.newEngine(engine.Options{})
	if e.Name() == "" {
		t.Error("no name")
	}
	s := &server{acceptor: newAcceptor(), engine: e}
	s.handler = s.acceptor
	s.shutdown(t)
	s.shutdown(t)
	ln := nettest.NewListener()
	if err := e.Serve(ln, s.handler); err != engine.ErrShutdown {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	client, end := net.Pipe()
	defer client.Close()
	defer end.Close()
	if err := e.ServeConn(end, nil, s.handler); err != engine.ErrShutdown {
		t.Errorf("ServeConn after Shutdown: %v", err)
	}
	_ = end.SetWriteDeadline(time.Now())
	if _, err := end.Write([]byte("x")); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("ServeConn after Shutdown closed the connection: %v", err)
	}
}
