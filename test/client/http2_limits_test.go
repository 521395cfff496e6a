package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestClientHTTP2Limits: connections are opened up to the maximum when all are full, and
// then requests wait.
func TestClientHTTP2Limits(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	s := &sluice.Server{Handler: blockingHandler(release, &arrived, &gone).Sluice}
	s.HTTP2.MaxConcurrentStreams = 2
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	harness.ServeUntilEnd(t, s, ln)
	r := &harness.HTTP2Rig{Addr: ln.Addr().String()}
	c := r.Host(sluice.HTTP2Only)
	c.MaxHTTP2Conns = 2
	c.MaxConnWaitTimeout = time.Minute
	defer c.CloseIdleConnections()
	if err := c.Prewarm(t.Context(), 5); err != nil { // settings come with the first answer
		t.Fatal(err)
	}
	if err := c.Do(harness.NewCall("GET", r.URL("/now"))); err != nil {
		t.Fatal(err)
	}
	checkPool(t, c, 1, 1)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := c.Do(harness.NewCall("GET", r.URL("/"))); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "four of six requests arrive", func() bool { return arrived.Load() == 4 })
	checkPool(t, c, 2, 0)
	eventually(t, "two wait", func() bool { return waitingForStreams() == 2 })
	if n := c.PendingRequests(); n != 6 {
		t.Errorf("%d pending requests, want 6", n)
	}
	if err := c.DoTimeout(new(sluice.Request), nil, time.Second); err == nil {
		t.Error("an invalid request succeeded")
	}
	req, resp := harness.NewCall("GET", r.URL("/"))
	if err := c.DoTimeout(req, resp, 10*time.Millisecond); err != sluice.ErrTimeout {
		t.Errorf("waited beyond its time: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var phase *sluice.PhaseError
	if err := c.DoContext(ctx, req, resp); !errors.As(err, &phase) || phase.Phase != sluice.PhaseWait {
		t.Errorf("waited beyond its context: %v", err)
	}
	c.MaxConnWaitTimeout = 0
	if err := c.Do(req, resp); err != sluice.ErrNoFreeConns {
		t.Errorf("error %v, want ErrNoFreeConns", err)
	}
	close(release)
	all.Wait()
	if arrived.Load() != 6 || r.Dials.Load() != 2 {
		t.Errorf("%d requests, %d dials", arrived.Load(), r.Dials.Load())
	}
}
