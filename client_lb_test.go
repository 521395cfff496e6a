package sluice

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/client/balance"
)

var errSick = errors.New("sick")

func TestLBClientHealth(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	byStatus := func(_ *Request, resp *Response, err error) bool { return err == nil && resp.StatusCode() < 500 }
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		check  func(*Request, *Response, error) bool
		status int
		err    error
		want   balance.Verdict
	}{
		{name: "answer", status: 200, want: balance.Good},
		{name: "status 500", status: 500, want: balance.Good},
		{name: "status 500 by HealthCheck", check: byStatus, status: 500, want: balance.Bad},
		{name: "status 404 by HealthCheck", check: byStatus, status: 404, want: balance.Good},
		{name: "error", err: errSick, want: balance.Bad},
		{name: "time-out", err: ErrTimeout, want: balance.Bad},
		{name: "context's time-out", ctx: late, err: context.DeadlineExceeded, want: balance.Bad},
		{name: "cancelled", ctx: cancelled, err: context.Canceled, want: balance.Unknown},
		{name: "cancelled, with an answer", ctx: cancelled, status: 200, want: balance.Good},
		{name: "bad request", err: errMissingHost, want: balance.Unknown},
	} {
		lb := &LBClient{HealthCheck: tc.check}
		resp := new(Response)
		resp.SetStatusCode(tc.status)
		if got := lb.judge(tc.ctx, new(Request), resp, tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// hedgeClient is a client whose answers come when the test lets them.
type hedgeClient struct {
	name    string
	begun   chan *Request // gets each request
	answers chan error    // what comes of them
	ended   atomic.Int32
	last    atomic.Pointer[Request]
}

func newHedgeClient(name string) *hedgeClient {
	return &hedgeClient{name: name, begun: make(chan *Request, 16), answers: make(chan error, 16)}
}

// DoDeadline implements BalancingClient.
func (c *hedgeClient) DoDeadline(*Request, *Response, time.Time) error { panic("has a DoContext") }

// DoContext does.
func (c *hedgeClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	defer c.ended.Add(1)
	c.last.Store(req)
	c.begun <- req
	select {
	case err := <-c.answers:
		if err == nil {
			resp.SetBodyString(c.name + string(req.Header.Peek("X-Id")))
		}
		return err
	case <-ctx.Done():
		// It writes to what it was given until it returns.
		req.SetBodyString("loser")
		resp.SetBodyString("loser")
		return ctx.Err()
	}
}

// PendingRequests implements BalancingClient.
func (c *hedgeClient) PendingRequests() int { return 0 }

// hedged sends a request with three clients.
func hedged(after time.Duration, hedges int) (lb *LBClient, clients []*hedgeClient, do func(method string) (*Response, chan error)) {
	lb = &LBClient{HedgeAfter: after, MaxHedges: hedges, Timeout: pipelineBound}
	for i := range 3 {
		c := newHedgeClient(fmt.Sprint("client ", i))
		clients = append(clients, c)
		lb.Clients = append(lb.Clients, c)
	}
	return lb, clients, func(method string) (*Response, chan error) {
		req, resp := new(Request), new(Response)
		req.Header.SetMethod(method)
		req.SetRequestURI("http://x/")
		done := make(chan error, 1)
		go func() { done <- lb.Do(req, resp) }()
		return resp, done
	}
}

// next returns the client that gets a request now.
func next(t *testing.T, clients []*hedgeClient) *hedgeClient {
	t.Helper()
	var found *hedgeClient
	waitUntil(t, "a client gets the request", func() bool {
		for _, c := range clients {
			select {
			case <-c.begun:
				found = c
				return true
			default:
			}
		}
		return false
	})
	return found
}

// Attempts have the bounds and hooks of the caller's request, and whether a body is wanted.
func TestHedgeCopiesBounds(t *testing.T) {
	lb, clients, _ := hedged(time.Hour, 1)
	trace := &ClientTrace{}
	req, resp := new(Request), new(Response)
	req.SetRequestURI("http://x/")
	req.SetTimeout(time.Minute)
	resp.SkipBody = true
	req.call = &clientCall{trace: trace}
	req.call.Allow(time.Hour)
	want := *req.call
	done := make(chan error, 1)
	go func() { done <- lb.Do(req, resp) }()
	c := next(t, clients)
	sent := c.last.Load()
	again := sent.call.Bounds
	again.Restart()
	if sent == req || sent.timeout != time.Minute || again.Deadline < sent.call.Deadline || sent.call.Deadline > want.Deadline || sent.call.trace != trace {
		t.Errorf("time-out %v, %+v; want %+v", sent.timeout, sent.call, want)
	}
	c.answers <- nil
	if err := <-done; err != nil || !resp.SkipBody || *req.call != want {
		t.Errorf("%v, skips %v, %+v", err, resp.SkipBody, req.call)
	}
}

// What is better: a good answer, then any answer, then the first error.
func TestHedgeTakes(t *testing.T) {
	failed, bad, good := &hedgeAttempt{err: errSick}, &hedgeAttempt{}, &hedgeAttempt{isGood: true}
	other := func(a *hedgeAttempt) *hedgeAttempt {
		copied := hedgeAttempt{err: a.err, isGood: a.isGood}
		return &copied
	}
	for i, tc := range []struct {
		best, next *hedgeAttempt
		isTaken    bool
	}{
		{nil, failed, true}, {nil, bad, true}, {nil, good, true},
		{failed, other(failed), false}, {failed, bad, true}, {failed, good, true},
		{bad, failed, false}, {bad, other(bad), false}, {bad, good, true},
		{good, failed, false}, {good, bad, false}, {good, other(good), false},
	} {
		h := hedge{best: tc.best, running: 2}
		if h.take(tc.next); (h.best == tc.next) != tc.isTaken || h.running != 1 {
			t.Errorf("%d: taken %v, %d running", i, h.best == tc.next, h.running)
		}
	}
}
