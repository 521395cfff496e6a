package client_test

import (
	"errors"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestConnectionsWithoutDeadlines: a connection whose deadlines cannot be set is not used.
// The request is sent again on another one if nothing of it was sent.
func TestConnectionsWithoutDeadlines(t *testing.T) {
	big := make([]byte, uploadSize)
	for _, tc := range []struct {
		failing string // which deadline
		body    []byte
		dials   int
	}{
		{"write", nil, sluice.DefaultMaxIdemponentCallAttempts}, {"read", nil, 1},
		{"write", big, sluice.DefaultMaxIdemponentCallAttempts}, {"read", big, sluice.DefaultMaxIdemponentCallAttempts},
	} {
		var conns []*stubConn
		c := &sluice.HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) {
			conns = append(conns, &stubConn{limitErr: errStub, failing: tc.failing})
			return conns[len(conns)-1], nil
		}}
		req, resp := harness.NewCall("POST", "http://h/")
		req.SetBody(tc.body)
		if err := c.DoTimeout(req, resp, time.Hour); !errors.Is(err, errStub) || len(conns) != tc.dials {
			t.Errorf("%s, %d bytes: %v, %d dials, want %d", tc.failing, len(tc.body), err, len(conns), tc.dials)
		}
		for _, conn := range conns {
			if last := conn.told[len(conn.told)-1]; last != "close" {
				t.Errorf("%s: the last was %s", tc.failing, last)
			}
		}
		checkPool(t, c, 0, 0)
	}
}

// A connection whose old deadline cannot be cleared is not used again.
func TestDeadlineThatStays(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return stickyConn{nc}, err
	}
	for i := range 3 {
		req, resp := harness.NewCall("POST", p.URL("/"))
		if err := c.DoTimeout(req, resp, time.Hour); err != nil || string(resp.Body()) != "ok" || p.Accepted() != i+1 {
			t.Errorf("%v, %q, %d connections, want %d", err, resp.Body(), p.Accepted(), i+1)
		}
		checkPool(t, c, 1, 1)
	}
}

// stickyConn cannot clear its deadlines.
type stickyConn struct{ net.Conn }

func (c stickyConn) SetDeadline(at time.Time) error {
	if at.IsZero() {
		return errStub
	}
	return c.Conn.SetDeadline(at)
}

// countdownConn fails to set a deadline for reading after a number of times.
type countdownConn struct {
	net.Conn
	left int
}

func (c *countdownConn) SetReadDeadline(at time.Time) error {
	if c.left--; c.left < 0 {
		return errStub
	}
	return c.Conn.SetReadDeadline(at)
}

// noEnd is the longest time-out. Programs say with it that they want none.
const noEnd = time.Duration(math.MaxInt64)

// TestTimeoutsWithoutEnd: a time-out or a deadline that is too far away to be counted from now does not end a call at
// once.
func TestTimeoutsWithoutEnd(t *testing.T) {
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	for name, do := range map[string]func(req *sluice.Request, resp *sluice.Response) error{
		"DoTimeout": func(req *sluice.Request, resp *sluice.Response) error { return p.Host().DoTimeout(req, resp, noEnd) },
		"DoDeadline": func(req *sluice.Request, resp *sluice.Response) error {
			return new(sluice.Client).DoDeadline(req, resp, far)
		},
		"SetTimeout": func(req *sluice.Request, resp *sluice.Response) error {
			req.SetTimeout(noEnd)
			return p.Host().Do(req, resp)
		},
		"HostClient": func(req *sluice.Request, resp *sluice.Response) error { return withoutEnd(p.Host()).Do(req, resp) },
		"Pipeline": func(req *sluice.Request, resp *sluice.Response) error {
			return pipelineWithoutEnd(p.Addr()).Do(req, resp)
		},
		"Pipeline, 2": func(req *sluice.Request, resp *sluice.Response) error {
			return pipelineWithoutEnd(p.Addr()).DoDeadline(req, resp, far)
		},
		"LBClient": func(req *sluice.Request, resp *sluice.Response) error {
			return (&sluice.LBClient{Clients: []sluice.BalancingClient{p.Host()}, Timeout: noEnd}).Do(req, resp)
		},
		"AcquireConn": func(req *sluice.Request, resp *sluice.Response) error {
			c := p.Host()
			cc, err := c.AcquireConn(noEnd, false)
			if err == nil {
				c.CloseConn(cc)
				resp.SetBodyString("ok")
			}
			return err
		},
		"GetTimeout": func(_ *sluice.Request, resp *sluice.Response) error {
			_, body, err := p.Host().GetTimeout(nil, p.URL("/"), noEnd)
			resp.SetBody(body)
			return err
		},
		"stream": func(req *sluice.Request, resp *sluice.Response) error {
			resp.StreamBody = true
			return withoutEnd(p.Host()).DoTimeout(req, resp, noEnd)
		},
		"upload": func(req *sluice.Request, resp *sluice.Response) error {
			req.Header.SetMethod("PUT")
			req.SetBody(make([]byte, 2*uploadSize))
			return withoutEnd(p.Host()).DoTimeout(req, resp, noEnd)
		},
	} {
		t.Run(name, func(t *testing.T) {
			req, resp := harness.NewCall("GET", p.URL("/"))
			if err := do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v, %q", err, resp.Body())
			}
		})
	}
}

// withoutEnd sets all time-outs of c to the longest one.
func withoutEnd(c *sluice.HostClient) *sluice.HostClient {
	c.ReadTimeout, c.WriteTimeout, c.MaxConnWaitTimeout = noEnd, noEnd, noEnd
	c.MaxIdleConnDuration, c.MaxConnDuration = noEnd, noEnd
	return c
}

func pipelineWithoutEnd(addr string) *sluice.PipelineClient {
	return &sluice.PipelineClient{Addr: addr, ReadTimeout: noEnd, WriteTimeout: noEnd}
}

// The same over HTTP/2, with TLS, whose dialing WriteTimeout limits, and without.
func TestTimeoutsWithoutEndHTTP2(t *testing.T) {
	onEachHTTP2Server(t, tellRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		c := withoutEnd(r.Host(sluice.HTTP2Only))
		defer c.CloseIdleConnections()
		for _, streams := range []bool{false, true} {
			req, resp := harness.NewCall("POST", r.URL("/?size=100000"))
			req.SetBodyString("body")
			resp.StreamBody = streams
			if err := c.DoTimeout(req, resp, noEnd); err != nil || len(resp.Body()) < 100_000 {
				t.Errorf("stream %v: %v, %d bytes", streams, err, len(resp.Body()))
			}
		}
	})
}

// TestServerTimeoutsWithoutEnd: as TestTimeoutsWithoutEnd, for servers and both protocols.
func TestServerTimeoutsWithoutEnd(t *testing.T) {
	for _, kind := range []sluice.Engine{sluice.EngineAuto, sluice.EnginePerConn} {
		for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			harness.ServeUntilEnd(t, &sluice.Server{
				Handler: func(ctx *sluice.RequestCtx) { _, _ = ctx.WriteString("ok") }, Engine: kind, Logger: harness.QuietLogger{},
				ReadTimeout: noEnd, WriteTimeout: noEnd, IdleTimeout: noEnd,
			}, ln)
			c := &sluice.HostClient{Addr: ln.Addr().String(), MaxIdemponentCallAttempts: 1, HTTP2: mode}
			for range 2 {
				req, resp := harness.NewCall("POST", "http://"+c.Addr+"/")
				req.SetBody(make([]byte, 100_000))
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
					t.Errorf("%v, HTTP/2 %v: %v, %q", kind, mode, err, resp.Body())
				}
			}
			c.CloseIdleConnections()
		}
	}
}

// TestNoWriteDeadlineIsLeft: the client bounds writing when a status from 300 on comes,
// also when all is written by then. The deadline must not stay for the next request on the
// connection.
func TestNoWriteDeadlineIsLeft(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
	c := p.Host()
	var later atomic.Bool
	var left atomic.Pointer[time.Time]
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(h *hookedConn, _ []byte) (int, error, bool) {
			if _, write := h.deadlines(); later.Load() && !write.IsZero() {
				left.Store(&write)
			}
			return 0, nil, false
		}
	})
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, uploadSize))
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	later.Store(true)
	req.SetBody(nil)
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if at := left.Load(); at != nil || p.Accepted() != 1 {
		t.Fatalf("a request without any time-out was written with the deadline %v; %d connections", at, p.Accepted())
	}
}
