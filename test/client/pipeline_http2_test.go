package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A PipelineClient sends streams if the server speaks HTTP/2, and otherwise what it has
// always sent, on the connection that was opened to ask.
func TestPipelineHTTP2(t *testing.T) {
	for _, kind := range harness.HTTP2Servers {
		for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Auto, sluice.HTTP2Only} {
			t.Run(fmt.Sprint(kind.Name, "/", mode), func(t *testing.T) {
				r := kind.Start(t, mirrorRequest)
				c := &sluice.PipelineClient{Addr: r.Addr, IsTLS: kind.IsTLS, TLSConfig: r.Client, Dial: r.Dial, HTTP2: mode, MaxPendingRequests: 3}
				defer c.CloseIdleConnections()
				want := "HTTP/1.1"
				if kind.IsHTTP2 && (kind.IsTLS || mode == sluice.HTTP2Only) {
					want = "HTTP/2.0"
				}
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						req, resp := harness.NewCall("POST", r.URL("/"))
						req.SetBodyString("body")
						resp.StreamBody = i%2 == 0
						err := c.DoTimeout(req, resp, clientPatience)
						if mode == sluice.HTTP2Only && !kind.IsHTTP2 {
							if !errors.Is(err, sluice.ErrNoHTTP2) {
								t.Errorf("error %v, want ErrNoHTTP2", err)
							}
							return
						}
						isStream := resp.IsBodyStream()
						if body := string(resp.Body()); err != nil || body != "POST "+r.Addr+" / "+want+" body" || isStream != resp.StreamBody {
							t.Errorf("%v, %q, stream %v", err, body, isStream)
						}
					})
				}
				all.Wait()
				if n := r.Dials.Load(); n != 1 && (mode == sluice.HTTP2Auto || kind.IsHTTP2) {
					t.Errorf("%d dials, want 1", n)
				}
				if n := c.PendingRequests(); n != 0 {
					t.Errorf("%d pending requests", n)
				}
			})
		}
	}
}

// MaxPendingRequests bounds the streams, answers come in any order, and calls that wait
// for room keep to their time.
func TestPipelineHTTP2Streams(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	onEachHTTP2Server(t, blockingHandler(release, &arrived, &gone), func(t *testing.T, r *harness.HTTP2Rig) {
		arrived.Store(0)
		c := &sluice.PipelineClient{Addr: r.Addr, IsTLS: r.Kind.IsTLS, TLSConfig: r.Client, Dial: r.Dial, HTTP2: sluice.HTTP2Only, MaxPendingRequests: 3}
		defer c.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				req, resp := harness.NewCall("GET", r.URL("/wait"))
				_ = c.DoContext(ctx, req, resp)
			})
		}
		eventually(t, "two requests arrive", func() bool { return arrived.Load() == 2 })
		if err := c.Do(harness.NewCall("GET", r.URL("/now"))); err != nil { // overtakes them
			t.Error(err)
		}
		all.Go(func() {
			req, resp := harness.NewCall("GET", r.URL("/wait"))
			_ = c.DoContext(ctx, req, resp)
		})
		eventually(t, "a third arrives", func() bool { return arrived.Load() == 3 })
		req, resp := harness.NewCall("GET", r.URL("/now"))
		if err := c.DoTimeout(req, resp, 20*time.Millisecond); err != sluice.ErrTimeout {
			t.Errorf("a fourth stream: %v", err)
		}
		if n := c.PendingRequests(); n != 3 {
			t.Errorf("%d pending requests, want 3", n)
		}
		cancel()
		all.Wait()
		if err := c.Do(harness.NewCall("GET", r.URL("/now"))); err != nil {
			t.Error(err)
		}
	})
	close(release)
}

// TestPipelineHTTP2Answers: the response is as over HTTP/1.1, whatever the caller wants of
// its body.
func TestPipelineHTTP2Answers(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, mirrorRequest)
	c := &sluice.PipelineClient{Addr: r.Addr, HTTP2: sluice.HTTP2Only}
	defer c.CloseIdleConnections()
	want := "POST " + r.Addr + " / HTTP/2.0 body"
	for name, set := range map[string]func(resp *sluice.Response){
		"memory": func(*sluice.Response) {}, "stream": func(resp *sluice.Response) { resp.StreamBody = true },
		"skipped": func(resp *sluice.Response) { resp.SkipBody = true }, "skipped stream": func(resp *sluice.Response) { resp.SkipBody, resp.StreamBody = true, true },
	} {
		req, resp := harness.NewCall("POST", r.URL("/"))
		req.SetBodyString("body")
		set(resp)
		skips, streams := resp.SkipBody, resp.StreamBody
		if err := c.Do(req, resp); err != nil || resp.StatusCode() != 200 || resp.SkipBody != skips || resp.StreamBody != streams || resp.IsBodyStream() != (streams && !skips) {
			t.Errorf("%s: %v, status %d, a stream %v", name, err, resp.StatusCode(), resp.IsBodyStream())
		}
		if body := string(resp.Body()); body != map[bool]string{false: want}[skips] {
			t.Errorf("%s: %q", name, body)
		}
	}
	req, _ := harness.NewCall("POST", r.URL("/"))
	if err := c.Do(req, nil); err != nil {
		t.Errorf("without a response: %v", err)
	}
}
