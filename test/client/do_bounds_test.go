package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// The bounds of a call are those of all attempts together, and don't stay.
func TestDoBoundsNestAndEnd(t *testing.T) {
	var inner []time.Duration
	done := errors.New("done")
	c := &sluice.HostClient{Addr: "h:80", MaxIdemponentCallAttempts: 1, DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
		end, _ := ctx.Deadline()
		inner = append(inner, time.Until(end))
		return nil, done
	}}
	req, resp := harness.NewCall("GET", "http://h/")
	near := func(i int, want time.Duration) {
		t.Helper()
		if got := inner[i]; got > want || got < want-time.Minute {
			t.Errorf("call %d had %v, want %v", i, got, want)
		}
	}
	req.SetTimeout(2 * time.Hour)
	calls := []func() error{
		func() error { return c.Do(req, resp) },
		func() error { return c.DoTimeout(req, resp, time.Hour) },
		func() error { return c.DoTimeout(req, resp, 3*time.Hour) },
		func() error { return c.DoDeadline(req, resp, time.Now().Add(time.Hour)) },
		func() error { return c.DoContext(t.Context(), req, resp) },
	}
	for i, want := range []time.Duration{2, 1, 2, 1, 2} {
		if err := calls[i](); !errors.Is(err, done) {
			t.Fatal(err)
		}
		near(i, want*time.Hour)
	}
	if req.GetTimeOut() != 2*time.Hour {
		t.Errorf("the request's own time-out is %v", req.GetTimeOut())
	}
	for _, none := range []time.Duration{0, -1} {
		if err := c.DoTimeout(req, resp, none); err != sluice.ErrTimeout || len(inner) != 5 {
			t.Errorf("%v: %v", none, err)
		}
	}
}

// TestSmallestLimits: a limit of 1 is one, for times and sizes.
func TestSmallestLimits(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	expectErr := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	c := p.Host()
	if cc, err := c.AcquireConn(1, false); err == nil || cc != nil {
		t.Errorf("AcquireConn: %v", err)
	}
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetTimeout(1)
	expectErr("Request.SetTimeout", c.Do(req, resp), sluice.ErrTimeout)
	req.SetTimeout(0)
	c.MaxResponseBodySize = 1
	expectErr("MaxResponseBodySize", c.Do(req, resp), sluice.ErrBodyTooLarge)
	resp.StreamBody = true
	expectErr("MaxResponseBodySize of a stream", c.Do(req, resp), sluice.ErrBodyTooLarge)
	resp.StreamBody = false
	c.MaxResponseBodySize, c.ReadTimeout = 0, 1
	expectErr("ReadTimeout", c.Do(req, resp), sluice.ErrTimeout)
	c.ReadTimeout, c.WriteTimeout = 0, 1
	expectErr("WriteTimeout", c.Do(req, resp), sluice.ErrTimeout)
	c.WriteTimeout, c.MaxConnDuration = 0, 1
	expectErr("MaxConnDuration", c.Do(req, resp), nil)
	checkPool(t, c, 0, 0)
	c.IsTLS, c.WriteTimeout = true, 1
	req.URI().SetScheme("https")
	expectErr("WriteTimeout with TLS", c.Do(req, resp), sluice.ErrTLSHandshakeTimeout)
}

// A request that GetContext, GetTimeout or PostContext used goes back to the
// pool with its context and deadline, and the next one who acquires it fails.
func TestPooledRequestsForgetTheirCall(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c, bound := p.Host(), false
	c.DialContext = func(ctx context.Context, addr string) (net.Conn, error) {
		_, bound = ctx.Deadline()
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	for range 64 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, _, err := new(sluice.Client).GetContext(ctx, nil, p.URL("/")); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, _, err := p.Host().GetTimeout(nil, p.URL("/"), time.Hour); err != nil {
			t.Fatal(err)
		}
		var taken []*sluice.Request
		for range 4 {
			req := sluice.AcquireRequest()
			taken = append(taken, req)
			req.SetRequestURI(p.URL("/"))
			if err := c.Do(req, nil); err != nil || bound {
				t.Fatalf("a request of the pool: %v, has a deadline %v", err, bound)
			}
			c.CloseIdleConnections() // the next one dials
		}
		for _, req := range taken {
			sluice.ReleaseRequest(req)
		}
	}
}

// resetTimeout renews the time of DoTimeout and DoDeadline too (measured with
// fasthttp 1.74), and never more than that.
func TestResetTimeout(t *testing.T) {
	for name, call := range map[string]func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error{
		"DoTimeout": func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			return c.DoTimeout(req, resp, time.Hour)
		},
		"DoDeadline": func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			return c.DoDeadline(req, resp, time.Now().Add(time.Hour))
		},
		"SetTimeout": func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			req.SetTimeout(time.Hour)
			return c.Do(req, resp)
		},
		"both": func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			req.SetTimeout(3 * time.Hour)
			return c.DoTimeout(req, resp, time.Hour)
		},
	} {
		var deadlines []time.Time
		c := hostThatResets(&deadlines)
		req, resp := harness.NewCall("GET", "http://h/")
		err := call(c, req, resp)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(deadlines) != sluice.DefaultMaxIdemponentCallAttempts {
			t.Fatalf("%s: %v, %v", name, err, deadlines)
		}
		switch gained := deadlines[4].Sub(deadlines[0]); {
		case gained <= 0:
			t.Errorf("%s: the deadline did not move", name)
		case gained > time.Minute:
			t.Errorf("%s: the deadline moved by %v beyond what the caller gave", name, gained)
		}
		req.SetTimeout(0)
		if _ = c.Do(req, resp); !deadlines[len(deadlines)-1].IsZero() {
			t.Errorf("%s left %v", name, deadlines[len(deadlines)-1])
		}
	}
}

// hostThatResets returns a host whose connections fail, whose calls are repeated with a new
// time, and which notes the deadline of each.
func hostThatResets(deadlines *[]time.Time) *sluice.HostClient {
	return &sluice.HostClient{
		Addr: "h:80",
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
			end, _ := ctx.Deadline()
			*deadlines = append(*deadlines, end)
			return nil, io.ErrUnexpectedEOF
		},
		RetryIfErr: func(*sluice.Request, int, error) (bool, bool) { return true, true },
	}
}

// GetTimeout is begun anew by resetTimeout as DoTimeout is.
func TestResetTimeoutOfGet(t *testing.T) {
	var deadlines []time.Time
	c := hostThatResets(&deadlines)
	_, _, _ = c.GetTimeout(nil, "http://h/", time.Hour)
	if len(deadlines) != 5 || !deadlines[4].After(deadlines[0]) {
		t.Errorf("%v", deadlines)
	}
}
