package sluice

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

// A request that GetContext, GetTimeout or PostContext used goes back to the
// pool with its context and deadline, and the next one who acquires it fails.
func TestReviewPooledRequestsForgetTheirCall(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
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
			if req.call != nil {
				t.Fatalf("a request of the pool has a call: %+v", req.call)
			}
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
func TestReviewResetTimeout(t *testing.T) {
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
		var deadlines []int64
		c := &HostClient{
			Addr: "h:80",
			Transport: roundTripFunc(func(_ *HostClient, req *Request, _ *Response) (bool, error) {
				deadlines = append(deadlines, req.call.Deadline)
				return true, io.ErrUnexpectedEOF
			}),
			RetryIfErr: func(*Request, int, error) (bool, bool) { return true, true },
		}
		req, resp := newCall("GET", "http://h/")
		err := call(c, req, resp)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(deadlines) != DefaultMaxIdemponentCallAttempts {
			t.Fatalf("%s: %v, %v", name, err, deadlines)
		}
		switch gained := time.Duration(deadlines[4] - deadlines[0]); {
		case gained <= 0:
			t.Errorf("%s: the deadline did not move", name)
		case gained > time.Minute:
			t.Errorf("%s: the deadline moved by %v beyond what the caller gave", name, gained)
		}
		if req.call != nil {
			t.Errorf("%s left %+v", name, req.call)
		}
	}
}

// Who waited, and is given a connection that turns out to be dead, must make
// one in its place, and not wait again behind everybody.
func TestReviewDeadConnectionKeepsTheTurn(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	c.MaxConns, c.MaxConnWaitTimeout = 1, clientPatience
	held, err := c.AcquireConn(0, false)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for i, path := range []string{"/first", "/second"} {
		done.Go(func() {
			if _, _, err := c.Get(nil, p.url(path)); err != nil {
				t.Error(path, err)
			}
		})
		eventually(t, "the request waits", func() bool { return c.waiters() == i+1 })
	}
	held.close() // as if the server had
	c.ReleaseConn(held)
	done.Wait()
	if got := p.requests(); len(got) != 2 || got[0] != "GET /first " {
		t.Errorf("in the order %q", got)
	}
	checkPool(t, c, 1, 1)
}
