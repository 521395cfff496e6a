package tcp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/tcp"
)

// A badListener returns given errors.
type badListener struct {
	net.Listener
	accept, close error
	closed        sync.Once
	isClosed      chan struct{}
}

func newBadListener(t *testing.T, accept, close error) *badListener {
	ln, _ := listenTCP(t)
	t.Cleanup(func() { _ = ln.Close() })
	return &badListener{Listener: ln, accept: accept, close: close, isClosed: make(chan struct{})}
}

func (l *badListener) Accept() (net.Conn, error) {
	if l.accept != nil {
		return nil, l.accept
	}
	<-l.isClosed
	return nil, net.ErrClosed
}

func (l *badListener) Close() error {
	l.closed.Do(func() { close(l.isClosed) })
	return l.close
}

// TestShutdownTellsOfListeners: Shutdown returns a listener's error of Close, unless
// the listener was closed already.
func TestShutdownTellsOfListeners(t *testing.T) {
	for name, c := range map[string]struct {
		close error
		want  error
	}{
		"fine":   {nil, nil},
		"failed": {errMadeUp, errMadeUp},
		"closed": {net.ErrClosed, nil},
	} {
		for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
			s := &tcp.Server{Engine: e, Handler: echo}
			served := make(chan error, 2)
			for _, err := range []error{nil, c.close} {
				ln := newBadListener(t, nil, err)
				go func() { served <- s.Serve(ln) }()
			}
			eventually(t, "both listeners", func() bool { return tcp.ListenersOf(s) == 2 })
			if err := s.Shutdown(context.Background()); err != c.want {
				t.Errorf("%s, engine %v: Shutdown returned %v, want %v", name, e, err, c.want)
			}
			for range cap(served) {
				if err := <-served; err != nil {
					t.Errorf("%s, engine %v: Serve returned %v", name, e, err)
				}
			}
		}
	}
}

// TestShutdownThatEndsEarly: if connections were cut, ctx's error takes precedence
// over a listener's.
func TestShutdownThatEndsEarly(t *testing.T) {
	entered, release := make(chan bool), make(chan bool)
	s := &tcp.Server{Handler: func(_ *tcp.Conn, in []byte) (int, error) {
		entered <- true
		<-release
		return len(in), nil
	}}
	served := make(chan error, 1)
	ln := newBadListener(t, nil, errMadeUp)
	go func() { served <- s.Serve(ln) }()
	mine, other := pairOf(t, "tcp")
	if err := s.AdoptConn(mine); err != nil {
		t.Fatal(err)
	}
	(&client{other}).send(t, "x")
	<-entered
	eventually(t, "the listener", func() bool { return tcp.ListenersOf(s) == 1 })
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown returned %v", err)
	}
	close(release)
	<-served
}

// TestServeGivesTheListenerBack: after its Serve has returned, the Server does not
// close a listener any more.
func TestServeGivesTheListenerBack(t *testing.T) {
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		s := &tcp.Server{Engine: e, Handler: echo}
		ln := newBadListener(t, errMadeUp, nil)
		if err := s.Serve(ln); !errors.Is(err, errMadeUp) {
			t.Errorf("engine %v: Serve returned %v", e, err)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		select {
		case <-ln.isClosed:
			t.Errorf("engine %v: Shutdown has closed a listener that was not served any more", e)
		default:
		}
	}
}

// TestListenAndServeFails: after a failure the address is free again.
func TestListenAndServeFails(t *testing.T) {
	ln, _ := listenTCP(t)
	addr := ln.Addr().String()
	_ = ln.Close()
	if err := new(tcp.Server).ListenAndServe(addr); err == nil {
		t.Error("ListenAndServe without a Handler returned no error")
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the address is taken: %v", err)
	}
	_ = again.Close()
}

// TestServeConnHandshake: a failed TLS handshake is ServeConn's error.
func TestServeConnHandshake(t *testing.T) {
	var config *tls.Config
	for _, n := range networks(t) {
		if n.tls != nil {
			config = n.tls
		}
	}
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		s := &tcp.Server{Engine: e, Handler: echo, TLSConfig: config, OnOpen: func(*tcp.Conn) error {
			t.Error("OnOpen before the handshake")
			return nil
		}}
		mine, other := pairOf(t, "tcp")
		served := make(chan error, 1)
		go func() { served <- s.ServeConn(mine) }()
		(&client{other}).send(t, "this is not TLS\r\n\r\n")
		if err := <-served; err == nil {
			t.Errorf("engine %v: ServeConn returned no error", e)
		}
	}
}

// TestStatsBeforeServing: without an engine all counts are zero.
func TestStatsBeforeServing(t *testing.T) {
	stats := new(tcp.Server).Stats()
	if stats.Engine != "" || stats.Loops != nil || stats.Accepted != 0 || stats.Connections != 0 {
		t.Errorf("%+v", stats)
	}
}

// TestServeMeetsShutdown: a Shutdown while Serve begins ends it like any other.
func TestServeMeetsShutdown(t *testing.T) {
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		for range 300 {
			s := &tcp.Server{Engine: e, Handler: echo}
			ln, served := newBadListener(t, nil, nil), make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			for tcp.ListenersOf(s) == 0 {
				runtime.Gosched()
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := <-served; err != nil {
				t.Fatalf("engine %v: %v", e, err)
			}
		}
	}
}

// TestMultipathIsLogged: a process tells of such a listener, a test binary does not.
func TestMultipathIsLogged(t *testing.T) {
	const asProgram = "program"
	isProgram := flag.Arg(0) == asProgram
	ln, err := nettest.ListenMultipath()
	if err != nil {
		t.Skip(err)
	}
	if !isProgram {
		if out, err := exec.Command(os.Args[0], "-test.run=^TestMultipathIsLogged$", asProgram).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	} else {
		own := flag.CommandLine
		defer func() { flag.CommandLine = own }()
		flag.CommandLine = flag.NewFlagSet("", flag.ContinueOnError)
	}
	var text bytes.Buffer
	s := &tcp.Server{Handler: echo, Logger: log.New(&text, "", 0)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	eventually(t, "the listener", func() bool { return tcp.ListenersOf(s) == 1 })
	if err := errors.Join(s.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
	if log := text.String(); strings.Contains(log, "for multipath TCP") != isProgram {
		t.Errorf("logged %q", log)
	}
}
