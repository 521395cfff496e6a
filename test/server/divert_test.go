package server_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestDivert: a server that steers connections away does not serve them, and
// counts them as done.
func TestDivert(t *testing.T) {
	if !canDuplicate {
		t.Skip("there are no descriptors")
	}
	for _, n := range append(harness.OverTCPByEach(), overUnix()) {
		t.Run(n.Name, func(t *testing.T) {
			const count = 6
			name := func(name string) sluice.RequestHandler {
				return func(ctx *sluice.RequestCtx) { ctx.WriteString(name) }
			}
			other := harness.Serve(t, n, &sluice.Server{Handler: name("there")})
			var asked atomic.Int64
			var words [2]atomic.Uint64
			here := metered(&sluice.Meter{Accepted: &words[0], Done: &words[1]}, &sluice.Server{Handler: name("here")})
			here.Control().Divert = func(fd int) bool {
				if asked.Add(1)%2 == 0 {
					return false
				}
				if err := other.Server.Control().AdoptSocket(harness.Duplicate(fd), sluice.Parcel{}); err != nil {
					t.Error(err)
				}
				return true
			}
			s := harness.Serve(t, n, here)
			for i := range count {
				want := "there"
				if i%2 == 1 {
					want = "here"
				}
				if got := s.Dial().Get("/"); got.Body != want {
					t.Errorf("connection %d is served %s, want %s", i, got.Body, want)
				}
			}
			if open := s.Server.GetOpenConnectionsCount(); open != count/2 {
				t.Errorf("%d connections are open, want %d", open, count/2)
			}
			if accepted, done := words[0].Load(), words[1].Load(); accepted != count || done != count/2 {
				t.Errorf("%d accepted, %d done; want %d, %d", accepted, done, count, count/2)
			}
		})
	}
}

// TestProbe: a loop that hangs is found.
func TestProbe(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			entered, leave := make(chan bool), make(chan bool)
			s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {}}
			s.Control().Divert = func(int) bool { // it must not block, but here it does
				entered <- true
				<-leave
				return false
			}
			if err := s.Control().Probe(t.Context()); err != nil {
				t.Errorf("before Serve: %v", err)
			}
			r := harness.Serve(t, n, s)
			p := r.Dial()
			<-entered
			if n.Engine == sluice.EngineEpoll {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if err := s.Control().Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with a loop that hangs: %v", err)
				}
				cancel()
			}
			leave <- true
			for range 10 {
				p.Get("/")
				if err := s.Control().Probe(t.Context()); err != nil {
					t.Errorf("Probe: %v", err)
				}
			}
			r.Stop()
			if err := s.Control().Probe(t.Context()); err != nil {
				t.Errorf("after Shutdown: %v", err)
			}
		})
	}
}
