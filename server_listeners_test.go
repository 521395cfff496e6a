package sluice

import (
	"net"
	"runtime"
	"testing"
)

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
