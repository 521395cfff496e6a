package sluice

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Nothing was sent: any request goes to another connection. That must be a
// fresh one, as all that idle may be dead for the same reason.
func TestDoRepeatsWhatWasNotSent(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	dials := 0
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		if dials++; dials > 3 || err != nil {
			return nc, err
		}
		return &hookedConn{Conn: nc, onWrite: func(*hookedConn, []byte) (int, error, bool) { return 0, syscall.EPIPE, true }}, nil
	}
	held(t, c, 3)()
	req, resp := newCall("POST", p.url("/"))
	req.SetBodyString("body")
	if err := c.Do(req, resp); err != nil || dials != 4 {
		t.Errorf("%v, %d dials", err, dials)
	}
	if got := p.requests(); len(got) != 1 || got[0] != "POST / body" {
		t.Errorf("%q", got)
	}
	checkPool(t, c, 3, 3) // two that were not tried, and the new one
}

// The bounds of a call are those of all attempts together, and don't stay.
func TestDoBoundsNestAndEnd(t *testing.T) {
	var inner []time.Duration
	done := errors.New("done")
	c := &HostClient{Addr: "h:80", MaxIdemponentCallAttempts: 1, DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
		end, _ := ctx.Deadline()
		inner = append(inner, time.Until(end))
		return nil, done
	}}
	req, resp := newCall("GET", "http://h/")
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
		if err := c.DoTimeout(req, resp, none); err != ErrTimeout || len(inner) != 5 {
			t.Errorf("%v: %v", none, err)
		}
	}
}

// TestSmallestLimits: a limit of 1 is one, for times and sizes.
func TestSmallestLimits(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	expectErr := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	c := p.host()
	if cc, err := c.AcquireConn(1, false); err == nil || cc != nil {
		t.Errorf("AcquireConn: %v", err)
	}
	req, resp := newCall("POST", p.url("/"))
	req.SetTimeout(1)
	expectErr("Request.SetTimeout", c.Do(req, resp), ErrTimeout)
	req.SetTimeout(0)
	c.MaxResponseBodySize = 1
	expectErr("MaxResponseBodySize", c.Do(req, resp), ErrBodyTooLarge)
	resp.StreamBody = true
	expectErr("MaxResponseBodySize of a stream", c.Do(req, resp), ErrBodyTooLarge)
	resp.StreamBody = false
	c.MaxResponseBodySize, c.ReadTimeout = 0, 1
	expectErr("ReadTimeout", c.Do(req, resp), ErrTimeout)
	c.ReadTimeout, c.WriteTimeout = 0, 1
	expectErr("WriteTimeout", c.Do(req, resp), ErrTimeout)
	c.WriteTimeout, c.MaxConnDuration = 0, 1
	expectErr("MaxConnDuration", c.Do(req, resp), nil)
	checkPool(t, c, 0, 0)
	c.IsTLS, c.WriteTimeout = true, 1
	req.URI().SetScheme("https")
	expectErr("WriteTimeout with TLS", c.Do(req, resp), ErrTLSHandshakeTimeout)
}

// TestCallsLimits: a limit of 1 is one, for times and sizes.
func TestCallsLimits(t *testing.T) {
	if n := positiveOr(1, 5); n != 1 {
		t.Errorf("size %d", n)
	}
	var call clientCall
	if call.Limit(1) == 0 {
		t.Error("no limit")
	}
	call.Allow(time.Hour)
	if call.Left(1) != 1 {
		t.Error("more time than was asked for")
	}
}

// TestCallsTime: what a call whose time has run out says.
func TestCallsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clientCall
		c.Allow(time.Second)
		if c.err() != nil || c.explain(io.EOF) != io.EOF || c.explain(os.ErrDeadlineExceeded) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("before: %v, %v", c.err(), c.explain(io.EOF))
		}
		time.Sleep(time.Second)
		if c.err() != ErrTimeout || c.explain(io.EOF) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("after 1 of 1 s: %v, %v", c.err(), c.explain(io.EOF))
		}
	})
}

// A context that ends tells why, and where the call was.
func TestCallsContext(t *testing.T) {
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := clientCall{Bounds: clock.Bounds{Context: ctx}, phase: PhaseDial}
	if !c.IsBound() || c.HasEnded() || c.err() != nil || c.explain(io.EOF) != io.EOF {
		t.Error("it has ended before")
	}
	cancel(why)
	<-c.Done()
	for _, err := range []error{c.err(), c.explain(io.EOF)} {
		var phase *PhaseError
		if !errors.As(err, &phase) || phase.Phase != PhaseDial || !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}
	own := &PhaseError{Phase: PhaseDNS, Err: why}
	if got := c.explain(own); got != own {
		t.Errorf("the dialer's error became %v", got)
	}
}

// A request that GetContext, GetTimeout or PostContext used goes back to the
// pool with its context and deadline, and the next one who acquires it fails.
func TestPooledRequestsForgetTheirCall(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c, bound := p.host(), false
	c.DialContext = func(ctx context.Context, addr string) (net.Conn, error) {
		_, bound = ctx.Deadline()
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	for range 64 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, _, err := new(Client).GetContext(ctx, nil, p.url("/")); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, _, err := p.host().GetTimeout(nil, p.url("/"), time.Hour); err != nil {
			t.Fatal(err)
		}
		var taken []*Request
		for range 4 {
			req := AcquireRequest()
			taken = append(taken, req)
			req.SetRequestURI(p.url("/"))
			if err := c.Do(req, nil); err != nil || bound {
				t.Fatalf("a request of the pool: %v, has a deadline %v", err, bound)
			}
			c.CloseIdleConnections() // the next one dials
		}
		for _, req := range taken {
			ReleaseRequest(req)
		}
	}
}

// roundTripFunc is a RoundTripper.
type roundTripFunc func(hc *HostClient, req *Request, resp *Response) (bool, error)

func (f roundTripFunc) RoundTrip(hc *HostClient, req *Request, resp *Response) (bool, error) {
	return f(hc, req, resp)
}

// resetTimeout renews the time of DoTimeout and DoDeadline too (measured with
// fasthttp 1.74), and never more than that.
func TestResetTimeout(t *testing.T) {
	for name, call := range map[string]func(c *HostClient, req *Request, resp *Response) error{
		"DoTimeout": func(c *HostClient, req *Request, resp *Response) error { return c.DoTimeout(req, resp, time.Hour) },
		"DoDeadline": func(c *HostClient, req *Request, resp *Response) error {
			return c.DoDeadline(req, resp, time.Now().Add(time.Hour))
		},
		"SetTimeout": func(c *HostClient, req *Request, resp *Response) error {
			req.SetTimeout(time.Hour)
			return c.Do(req, resp)
		},
		"both": func(c *HostClient, req *Request, resp *Response) error {
			req.SetTimeout(3 * time.Hour)
			return c.DoTimeout(req, resp, time.Hour)
		},
	} {
		var deadlines []time.Time
		c := &HostClient{
			Addr: "h:80",
			DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
				end, _ := ctx.Deadline()
				deadlines = append(deadlines, end)
				return nil, io.ErrUnexpectedEOF
			},
			RetryIfErr: func(*Request, int, error) (bool, bool) { return true, true },
		}
		req, resp := newCall("GET", "http://h/")
		err := call(c, req, resp)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(deadlines) != DefaultMaxIdemponentCallAttempts {
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

// GetTimeout is begun anew by resetTimeout as DoTimeout is.
func TestResetTimeoutOfGet(t *testing.T) {
	var deadlines []time.Time
	c := &HostClient{
		Addr: "h:80",
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
			end, _ := ctx.Deadline()
			deadlines = append(deadlines, end)
			return nil, io.ErrUnexpectedEOF
		},
		RetryIfErr: func(*Request, int, error) (bool, bool) { return true, true },
	}
	_, _, _ = c.GetTimeout(nil, "http://h/", time.Hour)
	if len(deadlines) != 5 || !deadlines[4].After(deadlines[0]) {
		t.Errorf("%v", deadlines)
	}
}
