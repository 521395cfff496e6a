package sluice

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// blockingHandler answers when release is closed, and reports requests that were given
// up. Those for /now are answered at once.
func blockingHandler(release <-chan struct{}, arrived, gone *atomic.Int64) http2Handler {
	return http2Handler{
		sluice: func(ctx *RequestCtx) {
			if string(ctx.Path()) == "/now" {
				return
			}
			arrived.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
				gone.Add(1)
			}
		},
		nethttp: func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/now" {
				return
			}
			arrived.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
				gone.Add(1)
			}
		},
	}
}

// TestClientHTTP2Limits: connections are opened up to the maximum when all are full, and
// then requests wait.
func TestClientHTTP2Limits(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	s := &Server{Handler: blockingHandler(release, &arrived, &gone).sluice}
	s.HTTP2.MaxConcurrentStreams = 2
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveUntilEnd(t, s, ln)
	r := &http2Rig{addr: ln.Addr().String()}
	c := r.host(HTTP2Only)
	c.MaxHTTP2Conns = 2
	c.MaxConnWaitTimeout = time.Minute
	defer c.CloseIdleConnections()
	if err := c.Prewarm(t.Context(), 5); err != nil { // settings come with the first answer
		t.Fatal(err)
	}
	if err := c.Do(newCall("GET", r.url("/now"))); err != nil {
		t.Fatal(err)
	}
	checkPool(t, c, 1, 1)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := c.Do(newCall("GET", r.url("/"))); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "four of six requests arrive", func() bool { return arrived.Load() == 4 })
	checkPool(t, c, 2, 0)
	eventually(t, "two wait", func() bool { return c.http2.Waiting() == 2 })
	if n := c.PendingRequests(); n != 6 {
		t.Errorf("%d pending requests, want 6", n)
	}
	if err := c.DoTimeout(new(Request), nil, time.Second); err == nil {
		t.Error("an invalid request succeeded")
	}
	req, resp := newCall("GET", r.url("/"))
	if err := c.DoTimeout(req, resp, 10*time.Millisecond); err != ErrTimeout {
		t.Errorf("waited beyond its time: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var phase *PhaseError
	if err := c.DoContext(ctx, req, resp); !errors.As(err, &phase) || phase.Phase != PhaseWait {
		t.Errorf("waited beyond its context: %v", err)
	}
	c.MaxConnWaitTimeout = 0
	if err := c.Do(req, resp); err != ErrNoFreeConns {
		t.Errorf("error %v, want ErrNoFreeConns", err)
	}
	close(release)
	all.Wait()
	if arrived.Load() != 6 || r.dials.Load() != 2 {
		t.Errorf("%d requests, %d dials", arrived.Load(), r.dials.Load())
	}
}
