//go:build unix

package sluiceredis

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/shared"
)

// While Redis is away, the limit is open, closed, or that of the machine, as the program says.
// No request waits: after three failures Redis is not asked.
func TestAway(t *testing.T) {
	segment := shared.Must(shared.New(shared.Options{Local: true}))
	local := shared.Must(segment.RateLimiter("local", shared.RateLimit{Events: 7, Per: time.Hour}))
	refused := func(s *server) { s.Kill() }
	silent := func(s *server) { s.Signal(syscall.SIGSTOP) } // its sockets stay open
	for name, c := range map[string]struct {
		fail     func(s *server)
		away     func(key []byte) shared.Quota
		admitted int
	}{
		"closed":         {refused, nil, 0},
		"closed, silent": {silent, nil, 0},
		"open":           {refused, Admit, 1000},
		"open, silent":   {silent, Admit, 1000},
		"local, silent":  {silent, local.Take, 7},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			store, errs := s.store(Options{Pause: time.Hour})
			handler := middleware.RateLimit(store.limiter(t, RateLimit{Events: 1, Per: time.Second, Away: c.away}), middleware.RateLimitOptions{})(func(*sluice.RequestCtx) {})
			c.fail(s)
			admitted := 0
			for range 1000 {
				var ctx sluice.RequestCtx
				ctx.Init(&sluice.Request{}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil)
				handler(&ctx)
				switch status := ctx.Response.StatusCode(); {
				case status == 200:
					admitted++
				case status != 429 || len(ctx.Response.Header.Peek("Retry-After")) == 0:
					t.Fatal(&ctx.Response)
				}
			}
			if admitted != c.admitted || errs.Load() != patience {
				t.Errorf("%d admitted, Redis is asked %d times", admitted, errs.Load())
			}
		})
	}
}

// A leader that cannot renew stops before another one may begin.
func TestLeadIsLost(t *testing.T) {
	s := newServer(t)
	store, _ := s.store(Options{Timeout: 100 * time.Millisecond, Pause: 10 * time.Millisecond})
	l := store.lease(t, time.Second)
	err := l.Lead(t.Context(), func(ctx context.Context) error {
		s.Signal(syscall.SIGSTOP)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, ErrLost) || l.Held() {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Lead(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
