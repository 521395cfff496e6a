package sluice

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// An idleListener accepts nothing until it is closed.
type idleListener struct {
	closed chan struct{}
	once   sync.Once
}

func (l *idleListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *idleListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*idleListener) Addr() net.Addr { return &net.UnixAddr{} }

// TestServeAgainstShutdown has Serve begin while Shutdown runs: the Shutdown that ends it
// closes its listener.
func TestServeAgainstShutdown(t *testing.T) {
	for range 2000 {
		s := &Server{Engine: EnginePerConn, Handler: func(*RequestCtx) {}}
		s.engine() // there is something to shut down
		ln, served := &idleListener{closed: make(chan struct{})}, make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		for ended := false; !ended; runtime.Gosched() {
			if err := s.Shutdown(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-served:
				if ended = true; err != nil {
					t.Fatal(err)
				}
			default: // it has not begun yet
			}
		}
		select {
		case <-ln.closed:
		default:
			t.Fatal("Serve has returned, and its listener is open")
		}
	}
}

// TestServeAfterShutdown has a server serve again as soon as Shutdown allows: it serves as
// if it were new.
func TestServeAfterShutdown(t *testing.T) {
	for range 2000 {
		s := &Server{Engine: EnginePerConn, Handler: func(*RequestCtx) {}}
		old := s.engine()
		ended := make(chan error)
		go func() { ended <- s.Shutdown() }()
		for s.engine() == old {
			runtime.Gosched()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if s.closeRequested() || s.done.IsClosed() {
			t.Fatalf("connections are closed after a response: %v; contexts of requests have ended: %v", s.closeRequested(), s.done.IsClosed())
		}
	}
}

// A slowEngine does not finish a Nudge.
type slowEngine struct {
	engine.Engine
	nudged, end chan struct{}
}

func (e *slowEngine) Nudge() {
	close(e.nudged)
	<-e.end
}

// TestShutdownGivesUpNudging: the context of a Shutdown bounds the prompting of the
// connections, too.
func TestShutdownGivesUpNudging(t *testing.T) {
	s := &Server{Handler: func(*RequestCtx) {}}
	e := &slowEngine{s.engine(), make(chan struct{}), make(chan struct{})}
	defer close(e.end)
	s.state.Engine = e
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-e.nudged
		cancel()
	}()
	_ = s.ShutdownWithContext(ctx) // nil if nothing was left to wait for
}

// TestServeMeetsShutdown: a Shutdown that comes while Serve begins ends it as any
// other.
func TestServeMeetsShutdown(t *testing.T) {
	for _, e := range []Engine{EnginePerConn, EngineEpoll} {
		for range 200 {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s, served := &Server{Engine: e, Handler: func(*RequestCtx) {}}, make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			for isTracked := false; !isTracked; runtime.Gosched() {
				listeners, _ := s.state.Counts()
				isTracked = listeners > 0
			}
			if err := s.Shutdown(); err != nil {
				t.Fatal(err)
			}
			if err := <-served; err != nil {
				t.Fatalf("engine %v: %v", e, err)
			}
		}
	}
}
