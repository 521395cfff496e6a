package sluice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A PipelineClient sends streams if the server speaks HTTP/2, and otherwise what it has
// always sent, on the connection that was opened to ask.
func TestPipelineHTTP2(t *testing.T) {
	for _, kind := range http2Servers {
		for _, mode := range []HTTP2Mode{HTTP2Auto, HTTP2Only} {
			t.Run(fmt.Sprint(kind.name, "/", mode), func(t *testing.T) {
				r := kind.start(t, mirrorRequest)
				c := &PipelineClient{Addr: r.addr, IsTLS: kind.isTLS, TLSConfig: r.client, Dial: r.dial, HTTP2: mode, MaxPendingRequests: 3}
				defer c.CloseIdleConnections()
				want := "HTTP/1.1"
				if kind.isHTTP2 && (kind.isTLS || mode == HTTP2Only) {
					want = "HTTP/2.0"
				}
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						req, resp := newCall("POST", r.url("/"))
						req.SetBodyString("body")
						resp.StreamBody = i%2 == 0
						err := c.DoTimeout(req, resp, clientPatience)
						if mode == HTTP2Only && !kind.isHTTP2 {
							if !errors.Is(err, ErrNoHTTP2) {
								t.Errorf("error %v, want ErrNoHTTP2", err)
							}
							return
						}
						isStream := resp.IsBodyStream()
						if body := string(resp.Body()); err != nil || body != "POST "+r.addr+" / "+want+" body" || isStream != resp.StreamBody {
							t.Errorf("%v, %q, stream %v", err, body, isStream)
						}
					})
				}
				all.Wait()
				if n := r.dials.Load(); n != 1 && (mode == HTTP2Auto || kind.isHTTP2) {
					t.Errorf("%d dials, want 1", n)
				}
				if n := c.PendingRequests(); n != 0 {
					t.Errorf("%d pending requests", n)
				}
			})
		}
	}
}

// The connection to a server that has chosen HTTP/1.1 is there before others learn of the
// choice, or they would open another one.
func TestHTTP2FallsBackOnce(t *testing.T) {
	r := http2Servers[1].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, IsTLS: true, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Auto}
	c.once.Do(c.prepare)
	pass := c.host.http2.passHTTP1
	c.host.http2.passHTTP1 = func(cc *clientConn) {
		if c.host.http2.isHTTP1.Load() {
			t.Error("others have learned of it")
		}
		pass(cc)
	}
	hc := r.host(HTTP2Auto)
	hc.MaxConns, hc.MaxConnWaitTimeout = 1, clientPatience
	for name, do := range map[string]func(req *Request, resp *Response) error{"PipelineClient": c.Do, "HostClient": hc.Do} {
		r.dials.Store(0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := do(newCall("GET", r.url("/"))); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%s: %d dials, want 1", name, n)
		}
	}
	c.CloseIdleConnections()
	hc.CloseIdleConnections()
}

// A connection whose server has chosen HTTP/1.1 is not used if it has ended meanwhile, and
// closed if nobody uses it.
func TestPipelineHTTP2Spare(t *testing.T) {
	r := http2Servers[1].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, IsTLS: true, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Auto}
	c.once.Do(c.prepare)
	c.host.http2.isHTTP1.Store(true)
	ended := newClientPeer(t, func(*peerConn) {})
	for range 2 {
		nc, err := net.Dial("tcp", ended.host().Addr)
		if err != nil {
			t.Fatal(err)
		}
		cc := newClientConn(nc, r.addr)
		eventually(t, "the connection ends", func() bool { return !cc.wire.IsQuiet() })
		c.host.http2.passHTTP1(cc)
		if r.dials.Load() == 0 {
			if err := c.Do(newCall("POST", r.url("/"))); err != nil || r.dials.Load() != 1 {
				t.Errorf("%v, %d dials, want 1", err, r.dials.Load())
			}
		}
		c.CloseIdleConnections()
		if _, err := nc.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the connection was not closed: %v", err)
		}
	}
}

// MaxPendingRequests bounds the streams, answers come in any order, and calls that wait
// for room keep to their time.
func TestPipelineHTTP2Streams(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	onEachHTTP2Server(t, blockingHandler(release, &arrived, &gone), func(t *testing.T, r *http2Rig) {
		arrived.Store(0)
		c := &PipelineClient{Addr: r.addr, IsTLS: r.kind.isTLS, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Only, MaxPendingRequests: 3}
		defer c.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				req, resp := newCall("GET", r.url("/wait"))
				_ = c.DoContext(ctx, req, resp)
			})
		}
		eventually(t, "two requests arrive", func() bool { return arrived.Load() == 2 })
		if err := c.Do(newCall("GET", r.url("/now"))); err != nil { // overtakes them
			t.Error(err)
		}
		all.Go(func() {
			req, resp := newCall("GET", r.url("/wait"))
			_ = c.DoContext(ctx, req, resp)
		})
		eventually(t, "a third arrives", func() bool { return arrived.Load() == 3 })
		req, resp := newCall("GET", r.url("/now"))
		if err := c.DoTimeout(req, resp, 20*time.Millisecond); err != ErrTimeout {
			t.Errorf("a fourth stream: %v", err)
		}
		if n := c.PendingRequests(); n != 3 {
			t.Errorf("%d pending requests, want 3", n)
		}
		cancel()
		all.Wait()
		if err := c.Do(newCall("GET", r.url("/now"))); err != nil {
			t.Error(err)
		}
	})
	close(release)
}
