package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/test/harness"
)

var errSick = errors.New("sick")

// lbClient is a BalancingClient that does what a test says.
type lbClient struct {
	name     string
	calls    atomic.Int32
	pending  atomic.Int32
	err      atomic.Pointer[error]
	mu       sync.Mutex
	deadline time.Time // of the last call
	status   int
}

// DoDeadline implements BalancingClient.
func (c *lbClient) DoDeadline(_ *sluice.Request, resp *sluice.Response, deadline time.Time) error {
	c.calls.Add(1)
	c.mu.Lock()
	c.deadline = deadline
	c.mu.Unlock()
	if err := c.err.Load(); err != nil {
		return *err
	}
	resp.Reset()
	resp.SetBodyString(c.name)
	resp.SetStatusCode(c.status)
	return nil
}

// PendingRequests implements BalancingClient.
func (c *lbClient) PendingRequests() int { return int(c.pending.Load()) }

func (c *lbClient) fail(err error) {
	if err == nil {
		c.err.Store(nil)
	} else {
		c.err.Store(&err)
	}
}

// newLB returns an LBClient for n clients.
func newLB(n int) (*sluice.LBClient, []*lbClient) {
	lb := &sluice.LBClient{}
	clients := make([]*lbClient, n)
	for i := range clients {
		clients[i] = &lbClient{name: fmt.Sprint(i), status: 200}
		lb.Clients = append(lb.Clients, clients[i])
	}
	return lb, clients
}

// ask sends requests, and returns how many each client got.
func ask(lb *sluice.LBClient, clients []*lbClient, times int) (got []int32) {
	before := make([]int32, len(clients))
	for i, c := range clients {
		before[i] = c.calls.Load()
	}
	req, resp := new(sluice.Request), new(sluice.Response)
	for range times {
		_ = lb.Do(req, resp)
	}
	for i, c := range clients {
		got = append(got, c.calls.Load()-before[i])
	}
	return got
}

func wantCalls(t *testing.T, what string, got []int32, want ...int32) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: clients got %v requests, want %v", what, got, want)
	}
}

func TestLBClientSharesOut(t *testing.T) {
	lb, clients := newLB(3)
	wantCalls(t, "all alike", ask(lb, clients, 30), 10, 10, 10)
	clients[0].pending.Store(2)
	clients[1].pending.Store(1)
	wantCalls(t, "one with the least", ask(lb, clients, 5), 0, 0, 5)
	clients[1].pending.Store(0)
	wantCalls(t, "two with the least", ask(lb, clients, 10), 0, 5, 5)
}

func TestLBClientChangesClients(t *testing.T) {
	lb := &sluice.LBClient{}
	if err := lb.Do(new(sluice.Request), nil); err != sluice.ErrNoAvailableClients {
		t.Errorf("no clients: %v", err)
	}
	_, clients := newLB(3)
	for i, c := range clients {
		if n := lb.AddClient(c); n != i+1 {
			t.Errorf("%d clients behind adding %d", n, i+1)
		}
	}
	wantCalls(t, "added", ask(lb, clients, 6), 2, 2, 2)
	n := lb.RemoveClients(func(c sluice.BalancingClient) bool { return c == clients[1] })
	if n != 2 {
		t.Errorf("%d clients are left", n)
	}
	wantCalls(t, "removed", ask(lb, clients, 6), 3, 0, 3)
	if n := lb.RemoveClients(func(sluice.BalancingClient) bool { return true }); n != 0 {
		t.Errorf("%d clients are left", n)
	}
	lb.HedgeAfter = time.Second
	if err := lb.Do(new(sluice.Request), nil); err != sluice.ErrNoAvailableClients {
		t.Errorf("no clients, hedged: %v", err)
	}
}

func TestLBClientDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(1)
		req, resp := new(sluice.Request), new(sluice.Response)
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		want := func(what string, at time.Time) {
			t.Helper()
			if !clients[0].deadline.Equal(at) {
				t.Errorf("%s: the deadline is in %v, want %v", what, time.Until(clients[0].deadline), time.Until(at))
			}
		}
		_ = lb.Do(req, resp)
		want("default", in(sluice.DefaultLBClientTimeout))
		lb.Timeout = 2 * time.Second
		_ = lb.Do(req, resp)
		want("Timeout", in(2*time.Second))
		_ = lb.DoTimeout(req, resp, 5*time.Second)
		want("DoTimeout", in(5*time.Second))
		at := in(7 * time.Second)
		_ = lb.DoDeadline(req, resp, at)
		want("DoDeadline", at)
		ctx, cancel := context.WithDeadline(t.Context(), at)
		defer cancel()
		_ = lb.DoContext(ctx, req, resp)
		want("DoContext with a deadline", at)
		_ = lb.DoContext(t.Context(), req, resp)
		want("DoContext without", in(2*time.Second))
	})
}

func TestLBClientEjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(3)
		sick := clients[1]
		sick.fail(errSick)
		wantCalls(t, "one failure counts at once", ask(lb, clients, 7), 3, 1, 3)
		time.Sleep(balance.PenaltyTime)
		wantCalls(t, "and for a while", ask(lb, clients, 7), 3, 1, 3)
		time.Sleep(balance.PenaltyTime)
		wantCalls(t, "the third ejects", ask(lb, clients, 7), 3, 1, 3)
		for _, c := range []*lbClient{clients[0], clients[2]} {
			c.pending.Store(1000)
		}
		wantCalls(t, "ejected, whatever the load", ask(lb, clients, 6), 3, 0, 3)
		length := balance.EjectTime
		for range 10 {
			time.Sleep(length - time.Millisecond)
			wantCalls(t, "not yet over", ask(lb, clients, 4), 2, 0, 2)
			time.Sleep(time.Millisecond)
			if got := ask(lb, clients, 5); got[1] != 1 {
				t.Fatalf("after %v the ejected client got %d requests, want 1", length, got[1])
			}
			length = min(2*length, balance.MaxEjectTime)
		}
		sick.fail(nil)
		time.Sleep(length)
		wantCalls(t, "well again", ask(lb, clients, 5), 0, 5, 0)
		sick.fail(errSick)
		for _, c := range clients {
			c.pending.Store(0)
		}
		if got := ask(lb, clients, 3); got[1] != 1 {
			t.Errorf("what was before counts still: %v", got)
		}
	})
}

func TestLBClientNeverEjectsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(2)
		for _, c := range clients {
			c.fail(errSick)
		}
		_ = ask(lb, clients, 20)
		if err := lb.Do(new(sluice.Request), new(sluice.Response)); err != errSick {
			t.Errorf("error %v, want that of a client", err)
		}
		clients[0].fail(nil)
		_ = ask(lb, clients, 4)
		wantCalls(t, "one is well, at once", ask(lb, clients, 6), 6, 0)
	})
}

// Of many requests that come at once, one tries an ejected client.
func TestLBClientProbesWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(2)
		slow := &heldClient{lbClient: clients[1]}
		lb.Clients[1] = slow
		clients[1].fail(errSick)
		for range balance.EjectAfter {
			_ = ask(lb, clients, 2)
			time.Sleep(balance.PenaltyTime)
		}
		held := make(chan struct{})
		slow.held = held
		clients[0].pending.Store(1000)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { _ = lb.Do(new(sluice.Request), new(sluice.Response)) })
		}
		synctest.Wait()
		if n := slow.waiting.Load(); n != 1 {
			t.Errorf("%d requests try the client, want 1", n)
		}
		close(held)
		group.Wait()
	})
}

// What a request that began before says is old news.
func TestLBClientIgnoresOldAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(2)
		held := make(chan struct{})
		slow := &heldClient{lbClient: clients[1], held: held}
		lb.Clients[1] = slow
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { _ = lb.Do(new(sluice.Request), new(sluice.Response)) })
		}
		synctest.Wait()
		time.Sleep(time.Millisecond)
		slow.held = nil
		clients[1].fail(errSick)
		clients[0].pending.Store(1000)
		wantCalls(t, "before", ask(lb, clients, balance.EjectAfter), 0, balance.EjectAfter)
		clients[1].fail(nil)
		close(held)
		group.Wait()
		wantCalls(t, "still ejected", ask(lb, clients, 3), 3, 0)
	})
}

// heldClient answers when held is closed; with nil at once.
type heldClient struct {
	*lbClient
	held    chan struct{}
	waiting atomic.Int32
}

// DoDeadline implements BalancingClient.
func (c *heldClient) DoDeadline(req *sluice.Request, resp *sluice.Response, deadline time.Time) error {
	if c.held != nil {
		c.waiting.Add(1)
		<-c.held
	}
	return c.lbClient.DoDeadline(req, resp, deadline)
}

func TestLBClientConcurrently(t *testing.T) {
	lb, clients := newLB(4)
	clients[2].fail(errSick)
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			_ = ask(lb, clients, 50)
			if i%10 == 0 {
				extra := &lbClient{name: "extra", status: 200}
				lb.AddClient(extra)
				_ = ask(lb, clients, 10)
				lb.RemoveClients(func(c sluice.BalancingClient) bool { return c == extra })
			}
		})
	}
	group.Wait()
	if n := lb.RemoveClients(func(sluice.BalancingClient) bool { return false }); n != len(clients) {
		t.Errorf("%d clients are left", n)
	}
}

func TestLBClientDoesNotAllocate(t *testing.T) {
	lb, clients := newLB(3)
	clients[1].fail(errSick)
	req, resp := new(sluice.Request), new(sluice.Response)
	if n := testing.AllocsPerRun(200, func() { _ = lb.Do(req, resp) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// panickingClient panics a number of times.
type panickingClient struct{ times int }

func (c *panickingClient) PendingRequests() int { return 0 }

func (c *panickingClient) DoDeadline(*sluice.Request, *sluice.Response, time.Time) error {
	if c.times--; c.times >= 0 {
		panic(errSick)
	}
	return nil
}

// A client that panics gets the next request, as it would after a success, and a probe
// that panics does not keep it ejected.
func TestLBClientPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := &panickingClient{times: 10}
		well, _ := newLB(1)
		lb := &sluice.LBClient{Clients: []sluice.BalancingClient{sick, well.Clients[0]}}
		panics := 0
		for range 20 {
			func() {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				if err := lb.Do(new(sluice.Request), nil); err != nil {
					t.Error(err)
				}
			}()
		}
		if panics != 10 {
			t.Errorf("%d of 20 requests panicked, want each second one", panics)
		}
	})
}

// AddClient and RemoveClients know the initial clients before the first request.
func TestLBClientChangesBeforeUse(t *testing.T) {
	lb, clients := newLB(3)
	if n := lb.RemoveClients(func(c sluice.BalancingClient) bool { return c != sluice.BalancingClient(clients[1]) }); n != 1 {
		t.Errorf("%d clients remain, want 1", n)
	}
	wantCalls(t, "one client remains", ask(lb, clients, 3), 0, 3, 0)
	lb, clients = newLB(3)
	if n := lb.AddClient(clients[0]); n != 4 {
		t.Errorf("%d clients, want 4", n)
	}
}

// What is wrong before a client is asked says nothing about the clients: with enough of it, all would be ejected.
func TestLBClientIsNotToBlame(t *testing.T) {
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	bad := func(uri string) func(lb *sluice.LBClient, req *sluice.Request) error {
		return func(lb *sluice.LBClient, req *sluice.Request) error {
			req.SetRequestURI(uri)
			return lb.Do(req, nil)
		}
	}
	for name, do := range map[string]func(lb *sluice.LBClient, req *sluice.Request) error{
		"no time": func(lb *sluice.LBClient, req *sluice.Request) error { return lb.DoTimeout(req, nil, 0) },
		"late": func(lb *sluice.LBClient, req *sluice.Request) error {
			return lb.DoDeadline(req, nil, time.Now().Add(-1))
		},
		"context":        func(lb *sluice.LBClient, req *sluice.Request) error { return lb.DoContext(ended, req, nil) },
		"port":           bad("http://h:port/"),
		"host":           bad("http://h%41/"),
		"user's control": bad("http://us%0Aer@h/"),
		"user's colon":   bad("http://us%3Aer@h/"),
	} {
		for _, after := range []time.Duration{0, time.Hour} {
			p := harness.NewClientPeer(t, answering(harness.OKAnswer))
			lb := &sluice.LBClient{Clients: []sluice.BalancingClient{p.Host(), p.Host()}, HedgeAfter: after}
			lb.HealthCheck = func(_ *sluice.Request, _ *sluice.Response, err error) bool {
				t.Errorf("%s, hedged %v: HealthCheck is asked about %v", name, after > 0, err)
				return err == nil
			}
			for range 2 * balance.EjectAfter {
				req := new(sluice.Request)
				req.SetRequestURI("http://h/")
				if err := do(lb, req); err == nil {
					t.Errorf("%s: no error", name)
				}
			}
			if n := p.Accepted(); n != 0 {
				t.Errorf("%s: %d connections", name, n)
			}
		}
	}
}

// TestLBClientForgets: after a good answer, a client that was ejected is as any
// other.
func TestLBClientForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(2)
		for range 2 {
			clients[1].fail(errSick)
			for range balance.EjectAfter {
				time.Sleep(balance.PenaltyTime)
				wantCalls(t, "each failure counts once", ask(lb, clients, 4), 3, 1)
			}
			clients[0].pending.Store(1000)
			time.Sleep(balance.EjectTime - time.Millisecond)
			wantCalls(t, "ejected", ask(lb, clients, 4), 4, 0)
			clients[1].fail(nil)
			time.Sleep(time.Millisecond)
			wantCalls(t, "probed", ask(lb, clients, 4), 0, 4)
			clients[0].pending.Store(0)
			wantCalls(t, "well", ask(lb, clients, 4), 2, 2)
		}
	})
}

// boundClient notes the contexts of requests.
type boundClient struct {
	sluice.HostClient
	ctx context.Context
}

func (c *boundClient) DoContext(ctx context.Context, req *sluice.Request, resp *sluice.Response) error {
	c.ctx = ctx
	return c.HostClient.DoContext(ctx, req, resp)
}

// Clients with contexts get the context, and Timeout if it has no deadline.
func TestLBClientContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at time.Time // the deadline of the dial
		c := &boundClient{HostClient: sluice.HostClient{Addr: "h:80", DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
			at, _ = ctx.Deadline()
			return nil, errSick
		}}}
		lb := &sluice.LBClient{Clients: []sluice.BalancingClient{c}, Timeout: time.Minute}
		req, resp := harness.NewCall("POST", "http://h/")
		if err := lb.DoContext(t.Context(), req, resp); !errors.Is(err, errSick) || c.ctx != t.Context() || !at.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("%v, until %v", err, at)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := lb.DoContext(ctx, req, resp); !errors.Is(err, errSick) || c.ctx != ctx || !at.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%v, until %v", err, at)
		}
		if err := c.Do(req, resp); !errors.Is(err, errSick) || !at.IsZero() {
			t.Errorf("the request keeps its deadline: %v, until %v", err, at)
		}
	})
}
