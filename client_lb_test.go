package sluice

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/clock"
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

// panickingClient panics a number of times.
type panickingClient struct{ times int }

func (c *panickingClient) PendingRequests() int { return 0 }

func (c *panickingClient) DoDeadline(*Request, *Response, time.Time) error {
	if c.times--; c.times >= 0 {
		panic(errSick)
	}
	return nil
}

// boundClient notes the bounds of requests.
type boundClient struct {
	panickingClient
	deadline int64
	ctx      context.Context
}

func (c *boundClient) DoContext(ctx context.Context, req *Request, _ *Response) error {
	c.ctx, c.deadline = ctx, 0
	if req.call != nil {
		c.deadline = req.call.Deadline
	}
	return nil
}

// Clients with contexts get the context, and Timeout if it has no deadline.
func TestLBClientContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &boundClient{}
		lb := &LBClient{Clients: []BalancingClient{c}, Timeout: time.Minute}
		req := new(Request)
		if err := lb.DoContext(t.Context(), req, nil); err != nil || c.ctx != t.Context() || c.deadline != clock.Nanos()+int64(time.Minute) {
			t.Errorf("%v, deadline %d", err, c.deadline)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := lb.DoContext(ctx, req, nil); err != nil || c.ctx != ctx || c.deadline != 0 {
			t.Errorf("%v, deadline %d", err, c.deadline)
		}
		if req.call != nil {
			t.Errorf("the request keeps %+v", req.call)
		}
	})
}
