package sluice

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A hole passes connections on, until it swallows what they send.
type hole struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	open   []*holeConn
}

// A holeConn is a connection and the one that continues it.
type holeConn struct {
	client, server net.Conn
	reads          atomic.Int64 // from the client
	isDark         atomic.Bool
}

func newHole(t testing.TB, target string) *hole {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{ln: ln, target: target}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", h.target)
			if err != nil {
				t.Error(err)
				return
			}
			pair := &holeConn{client: c, server: s}
			h.mu.Lock()
			h.open = append(h.open, pair)
			h.mu.Unlock()
			all.Go(func() { pair.pass(s, c) })
			all.Go(func() { pair.pass(c, s) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		h.mu.Lock()
		for _, c := range h.open {
			c.client.Close()
			c.server.Close()
		}
		h.mu.Unlock()
		all.Wait()
	})
	return h
}

// pass passes on what comes from src, and its end.
func (c *holeConn) pass(dst, src net.Conn) {
	in := make([]byte, 32<<10)
	for {
		n, err := src.Read(in)
		if src == c.client {
			c.reads.Add(1)
		}
		if c.isDark.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, failed := dst.Write(in[:n]); err != nil || failed != nil {
			dst.Close()
			return
		}
	}
}

// swallow makes the open connections say nothing any more, but for those whose handshake
// has not ended.
func (h *hole) swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.open {
		if c.reads.Load() > 2 {
			c.isDark.Store(true)
		}
	}
}

// swallowAll swallows after every 60 of total requests, while some are running. It returns
// how often.
func (h *hole) swallowAll(total, running *atomic.Int64) (times int64) {
	for next := total.Load() + 60; running.Load() > 0; time.Sleep(time.Millisecond) {
		if total.Load() >= next {
			h.swallow()
			times++
			next = total.Load() + 60
		}
	}
	return times
}

// Connections fall silent while requests are under way. The client leaves them: each GET
// is answered, no POST is processed twice, and none waits for ever.
func TestClientHTTP2Blackholes(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			var served sync.Map
			var total atomic.Int64
			count := func(path string) {
				total.Add(1)
				n, _ := served.LoadOrStore(path, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
			onEachHTTP2Server(t, http2Handler{
				sluice: func(ctx *RequestCtx) {
					count(string(ctx.Path()))
					_, _ = ctx.Write(ctx.Path())
				},
				nethttp: func(w http.ResponseWriter, r *http.Request) {
					count(r.URL.Path)
					_, _ = io.WriteString(w, r.URL.Path)
				},
			}, func(t *testing.T, r *http2Rig) {
				hole := newHole(t, r.addr)
				c := r.host(HTTP2Only)
				c.Addr, c.Dial, c.MaxIdemponentCallAttempts = hole.ln.Addr().String(), nil, 100
				if r.client != nil {
					c.TLSConfig = r.client.Clone()
				}
				health := c.prepared().http2
				health.PingAfter, health.PingTimeout = 20*time.Millisecond, 200*time.Millisecond
				defer c.CloseIdleConnections()
				var running, lost atomic.Int64
				var all sync.WaitGroup
				for worker := range 4 {
					running.Add(1)
					all.Go(func() {
						defer running.Add(-1)
						for i := range 100 {
							path := fmt.Sprintf("/%s/%d/%d", r.addr, worker, i) // a server may be late
							req, resp := newCall(method, r.url(path))
							err := c.Do(req, resp)
							n, _ := served.Load(path)
							switch {
							case err == nil && (n == nil || string(resp.Body()) != path):
								t.Errorf("%s: answered %q, processed: %v", path, resp.Body(), n != nil)
							case method == "POST" && n != nil && n.(*atomic.Int64).Load() > 1:
								t.Errorf("%s: processed twice", path)
							case method == "GET" && err != nil:
								t.Errorf("%s: %v", path, err)
							case err != nil:
								lost.Add(1)
							}
						}
					})
				}
				holes := hole.swallowAll(&total, &running)
				within(t, "the load", all.Wait)
				// Each of four callers may have been waiting when a connection fell silent.
				if n := lost.Load(); n > 4*holes {
					t.Errorf("%d requests failed, %d connections fell silent", n, holes)
				}
			})
		})
	}
}
