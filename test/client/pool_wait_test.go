package client_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// Whatever requests do at the same time, the counts are right afterwards, and
// there are never more connections in use than may be.
func TestPoolUnderChurn(t *testing.T) {
	const most = 2
	var using atomic.Int64
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for n := 0; c.Request() != nil; n++ {
			if using.Add(1) > most {
				t.Error("too many connections are used")
			}
			using.Add(-1)
			switch rand.IntN(8) {
			case 0:
				return
			case 1:
				c.Send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
				return
			case 2:
				c.Send(harness.OKAnswer)
				return
			}
			c.Send(harness.OKAnswer)
		}
	})
	c := p.Host()
	c.MaxConns, c.MaxConnWaitTimeout, c.MaxIdleConnDuration = most, harness.Patience, time.Millisecond
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 60 {
				churn(c, p.URL("/"), i+j)
			}
		})
	}
	within(t, "the churn", all.Wait)
	checkPool(t, c, 0, 0) // by the janitor
	c.SetMaxConns(most)
	for range 2 { // nothing that was forgotten waits for them
		held(t, c, most)()
	}
	eventually(t, "a request succeeds", func() bool {
		_, _, err := c.GetTimeout(nil, p.URL("/"), harness.Patience)
		return err == nil
	})
}

// churn does something with c.
func churn(c *sluice.HostClient, url string, what int) {
	req, resp := harness.NewCall("GET", url)
	switch what % 6 {
	case 0:
		_ = c.DoTimeout(req, resp, time.Duration(rand.IntN(1000))*time.Microsecond)
	case 1:
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
		_ = c.DoContext(ctx, req, resp)
		cancel()
	case 2:
		resp.StreamBody = true
		_ = c.Do(req, resp)
		resp.Reset()
	case 3:
		c.CloseIdleConnections()
		_ = c.Do(req, resp)
	case 4:
		c.SetMaxConns(1 + what%2)
		_ = c.Do(req, resp)
	default:
		_ = c.Do(req, resp)
	}
}

func TestPoolIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		wait time.Duration
		call func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error
		want error
	}{
		"at once":              {0, (*sluice.HostClient).Do, sluice.ErrNoFreeConns},
		"at once, with a time": {0, doHour, sluice.ErrNoFreeConns},
		"after the wait":       {time.Millisecond, (*sluice.HostClient).Do, sluice.ErrNoFreeConns},
		"after the shortest":   {1, (*sluice.HostClient).Do, sluice.ErrNoFreeConns},
		"wait before time":     {time.Millisecond, doHour, sluice.ErrNoFreeConns},
		"time before wait":     {time.Hour, doMillisecond, sluice.ErrTimeout},
		"context":              {0, doContextMillisecond, context.DeadlineExceeded},
		"context before wait":  {time.Hour, doContextMillisecond, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewClientPeer(t, answering(harness.OKAnswer))
			c := p.Host()
			c.MaxConns, c.MaxConnWaitTimeout = 1, test.wait
			release := held(t, c, 1)
			req, resp := harness.NewCall("GET", p.URL("/"))
			err := test.call(c, req, resp)
			var phase *sluice.PhaseError
			if !errors.Is(err, test.want) || errors.As(err, &phase) && phase.Phase != sluice.PhaseWait {
				t.Errorf("%v, want %v", err, test.want)
			}
			release() // no call waits any longer
			checkPool(t, c, 1, 1)
			if err := c.Do(req, resp); err != nil || p.Accepted() != 1 {
				t.Errorf("%v, %d connections", err, p.Accepted())
			}
		})
	}
}

func doMillisecond(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
	return c.DoTimeout(req, resp, time.Millisecond)
}

// Those who wait are served in their turn, by connections that come back and by
// permissions for those that end.
func TestPoolServesInTurn(t *testing.T) {
	for _, name := range []string{"given back", "closed", "more"} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewClientPeer(t, answering(harness.OKAnswer))
			c := p.Host()
			c.MaxConns, c.MaxConnWaitTimeout = 1, harness.Patience
			cc, err := c.AcquireConn(0, false)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					if _, _, err := c.Get(nil, p.URL("/"+string(rune('a'+i)))); err != nil {
						t.Error(err)
					}
				})
				eventually(t, "it waits", func() bool { return waiting() == i+1 })
			}
			switch name {
			case "given back":
				c.ReleaseConn(cc)
			case "closed":
				c.CloseConn(cc)
			case "more":
				c.SetMaxConns(2)
			}
			within(t, "serving", all.Wait)
			for i, got := range p.Requests() {
				if want := "GET /" + string(rune('a'+i)) + " "; got != want {
					t.Errorf("request %d is %q", i, got)
				}
			}
		})
	}
}

// A waiter that gives up at the moment when it is served gives back what it got.
func TestPoolAbandonedHandOff(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.MaxConns, c.MaxConnWaitTimeout = 1, harness.Patience
	for range 300 {
		cc, err := c.AcquireConn(harness.Patience, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				req, resp := harness.NewCall("GET", p.URL("/"))
				_ = c.DoContext(ctx, req, resp)
			})
		}
		eventually(t, "both wait", func() bool { return waiting() == 2 })
		all.Go(cancel)
		all.Go(func() { c.ReleaseConn(cc) })
		within(t, "the hand-off", all.Wait)
		if open, idle := c.ConnsCount(), c.IdleConnsCount(); open != idle || open > 1 {
			t.Fatalf("%d open, %d idle", open, idle)
		}
	}
}

// Who waited, and is given a connection that turns out to be dead, must make
// one in its place, and not wait again after all others.
func TestDeadConnectionKeepsTheTurn(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.MaxConns, c.MaxConnWaitTimeout = 1, harness.Patience
	held, err := c.AcquireConn(0, false)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for i, path := range []string{"/first", "/second"} {
		done.Go(func() {
			if _, _, err := c.Get(nil, p.URL(path)); err != nil {
				t.Error(path, err)
			}
		})
		eventually(t, "the request waits", func() bool { return waiting() == i+1 })
	}
	held.Conn().Close() // as if the server had
	c.ReleaseConn(held)
	done.Wait()
	if got := p.Requests(); len(got) != 2 || got[0] != "GET /first " {
		t.Errorf("in the order %q", got)
	}
	checkPool(t, c, 1, 1)
}

// TestPoolWaitersOrder: who waits for a connection is served by ConnPoolStrategy,
// and those that gave up are passed over.
func TestPoolWaitersOrder(t *testing.T) {
	const waiters, givesUp = 5, 2
	for _, test := range []struct {
		strategy sluice.ConnPoolStrategyType
		want     []int
	}{
		{sluice.FIFO, []int{0, 1, 3, 4}},
		{sluice.LIFO, []int{4, 3, 1, 0}},
	} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Gone() })
		c := p.Host()
		c.MaxConns, c.MaxConnWaitTimeout, c.ConnPoolStrategy = 1, harness.Patience, test.strategy
		cc, err := c.AcquireConn(0, false)
		if err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			waiter int
			conn   net.Conn
			err    error
		}
		outcomes := make(chan outcome)
		ctx, giveUp := context.WithCancel(t.Context())
		for i := range waiters {
			go func() {
				if i == givesUp {
					req, resp := harness.NewCall("GET", p.URL("/"))
					outcomes <- outcome{i, nil, c.DoContext(ctx, req, resp)}
					return
				}
				got, err := c.AcquireConn(0, false)
				if err != nil {
					outcomes <- outcome{i, nil, err}
					return
				}
				outcomes <- outcome{i, got.Conn(), nil}
			}()
			eventually(t, "the waiter", func() bool { return waiting() == i+1 })
		}
		giveUp()
		if o := <-outcomes; o.waiter != givesUp || !errors.Is(o.err, context.Canceled) || waiting() != waiters-1 {
			t.Errorf("strategy %d: waiter %d ended with %v; %d wait", test.strategy, o.waiter, o.err, waiting())
		}
		var order []int
		for range test.want {
			c.ReleaseConn(cc)
			o := <-outcomes
			if o.err != nil || o.conn != cc.Conn() {
				t.Fatalf("strategy %d: waiter %d got another connection, or %v", test.strategy, o.waiter, o.err)
			}
			order = append(order, o.waiter)
		}
		c.ReleaseConn(cc)
		if !slices.Equal(order, test.want) {
			t.Errorf("strategy %d: served %d, want %d", test.strategy, order, test.want)
		}
		checkPool(t, c, 1, 1)
	}
}
