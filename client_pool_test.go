package sluice

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// held makes n requests that the peer answers when release is called. It
// returns when all have a connection.
func held(t *testing.T, c *HostClient, n int) (release func()) {
	t.Helper()
	var ccs []*clientConn
	for range n {
		cc, err := c.AcquireConn(0, false)
		if err != nil {
			t.Fatal(err)
		}
		ccs = append(ccs, cc)
	}
	return func() {
		for _, cc := range ccs {
			c.ReleaseConn(cc)
		}
	}
}

// pipeHost is a client whose connections are pipes to a peer that only reads.
func pipeHost(idle time.Duration) *HostClient {
	return &HostClient{
		Addr:                "host.test:80",
		MaxIdleConnDuration: idle,
		Dial: func(string) (net.Conn, error) {
			mine, other := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, other)
				other.Close()
			}()
			return mine, nil
		},
	}
}

// Whatever requests do at the same time, the counts are right afterwards, and
// there are never more connections in use than may be.
func TestPoolUnderChurn(t *testing.T) {
	const most = 2
	var using atomic.Int64
	p := newClientPeer(t, func(c *peerConn) {
		for n := 0; c.request() != nil; n++ {
			if using.Add(1) > most {
				t.Error("too many connections are used")
			}
			using.Add(-1)
			switch rand.IntN(8) {
			case 0:
				return
			case 1:
				c.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
				return
			case 2:
				c.send(okAnswer)
				return
			}
			c.send(okAnswer)
		}
	})
	c := p.host()
	c.MaxConns, c.MaxConnWaitTimeout, c.MaxIdleConnDuration = most, clientPatience, time.Millisecond
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 60 {
				churn(c, p.url("/"), i+j)
			}
		})
	}
	within(t, "the churn", all.Wait)
	if n := c.waiters(); n != 0 {
		t.Errorf("%d wait", n)
	}
	checkPool(t, c, 0, 0) // by the janitor
	c.SetMaxConns(most)
	eventually(t, "a request succeeds", func() bool {
		_, _, err := c.GetTimeout(nil, p.url("/"), clientPatience)
		return err == nil
	})
}

// churn does something with c.
func churn(c *HostClient, url string, what int) {
	req, resp := newCall("GET", url)
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

func TestPoolStrategies(t *testing.T) {
	for _, test := range []struct {
		strategy ConnPoolStrategyType
		want     []int // connections of the later requests
	}{
		{FIFO, []int{1, 2, 3, 1}},
		{LIFO, []int{3, 3, 3, 3}},
	} {
		used := make(chan int, 8)
		p := newClientPeer(t, func(c *peerConn) {
			for c.request() != nil {
				used <- c.number
				c.send(okAnswer)
			}
		})
		c := p.host()
		c.ConnPoolStrategy = test.strategy
		var ccs []*clientConn
		for i := range 3 {
			cc, err := c.AcquireConn(0, false)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "accepted", func() bool { return p.accepted() == i+1 })
			ccs = append(ccs, cc)
		}
		for _, cc := range ccs {
			c.ReleaseConn(cc)
		}
		for i, want := range test.want {
			if _, _, err := c.Get(nil, p.url("/")); err != nil {
				t.Fatal(err)
			}
			if got := <-used; got != want {
				t.Errorf("strategy %d, request %d: connection %d, want %d", test.strategy, i, got, want)
			}
		}
	}
}

func TestPoolClosesIdleConnections(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	c.MaxIdleConnDuration = 20 * time.Millisecond
	held(t, c, 3)()
	checkPool(t, c, 0, 0)
	c.MaxIdleConnDuration = time.Hour
	// The timer of the janitor begins anew.
	held(t, c, 2)()
	checkPool(t, c, 2, 2)
	c.CloseIdleConnections()
	checkPool(t, c, 0, 0)
	if _, _, err := c.Get(nil, p.url("/")); err != nil {
		t.Error(err)
	}
}

func TestPoolMaxConnDuration(t *testing.T) {
	var closes []bool
	p := newClientPeer(t, func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			closes = append(closes, r.ConnectionClose())
			c.send(okAnswer)
		}
	})
	c := p.host()
	c.MaxConnDuration = time.Hour
	req, resp := newCall("GET", p.url("/"))
	for i := range 2 {
		if i == 1 {
			cc, err := c.AcquireConn(0, false)
			if err != nil {
				t.Fatal(err)
			}
			cc.created -= int64(2 * time.Hour)
			c.ReleaseConn(cc)
		}
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	}
	checkPool(t, c, 0, 0)
	if p.accepted() != 1 || len(closes) != 2 || closes[0] || !closes[1] || req.ConnectionClose() {
		t.Errorf("%d connections, told %v, later %v", p.accepted(), closes, req.ConnectionClose())
	}
}

// TestPoolWaitIsAPhase: also of an attempt after one that came further.
func TestPoolWaitIsAPhase(t *testing.T) {
	c := pipeHost(time.Hour)
	c.MaxConns = 1
	defer held(t, c, 1)()
	call := &clientCall{phase: PhaseRead}
	if _, _, err := c.acquire(call, forHTTP1); err != ErrNoFreeConns || call.phase != PhaseWait {
		t.Errorf("%v in phase %v", err, call.phase)
	}
}

func TestPoolIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		wait time.Duration
		call func(c *HostClient, req *Request, resp *Response) error
		want error
	}{
		"at once":              {0, (*HostClient).Do, ErrNoFreeConns},
		"at once, with a time": {0, doHour, ErrNoFreeConns},
		"after the wait":       {time.Millisecond, (*HostClient).Do, ErrNoFreeConns},
		"wait before time":     {time.Millisecond, doHour, ErrNoFreeConns},
		"time before wait":     {time.Hour, doMillisecond, ErrTimeout},
		"context":              {0, doContextMillisecond, context.DeadlineExceeded},
		"context before wait":  {time.Hour, doContextMillisecond, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			p := newClientPeer(t, answering(okAnswer))
			c := p.host()
			c.MaxConns, c.MaxConnWaitTimeout = 1, test.wait
			release := held(t, c, 1)
			req, resp := newCall("GET", p.url("/"))
			err := test.call(c, req, resp)
			var phase *PhaseError
			if !errors.Is(err, test.want) || errors.As(err, &phase) && phase.Phase != PhaseWait {
				t.Errorf("%v, want %v", err, test.want)
			}
			if c.waiters() != 0 {
				t.Error("it still waits")
			}
			release()
			checkPool(t, c, 1, 1)
			if err := c.Do(req, resp); err != nil || p.accepted() != 1 {
				t.Errorf("%v, %d connections", err, p.accepted())
			}
		})
	}
}

func doHour(c *HostClient, req *Request, resp *Response) error {
	return c.DoTimeout(req, resp, time.Hour)
}

func doMillisecond(c *HostClient, req *Request, resp *Response) error {
	return c.DoTimeout(req, resp, time.Millisecond)
}

func doContextMillisecond(c *HostClient, req *Request, resp *Response) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	return c.DoContext(ctx, req, resp)
}

// Those who wait are served in their turn, by connections that come back and by
// permissions for those that end.
func TestPoolServesInTurn(t *testing.T) {
	for name, give := range map[string]func(c *HostClient, cc *clientConn){
		"given back": (*HostClient).ReleaseConn,
		"closed":     (*HostClient).CloseConn,
		"more":       func(c *HostClient, _ *clientConn) { c.SetMaxConns(2) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newClientPeer(t, answering(okAnswer))
			c := p.host()
			c.MaxConns, c.MaxConnWaitTimeout = 1, clientPatience
			cc, err := c.AcquireConn(0, false)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					if _, _, err := c.Get(nil, p.url("/"+string(rune('a'+i)))); err != nil {
						t.Error(err)
					}
				})
				eventually(t, "it waits", func() bool { return c.waiters() == i+1 })
			}
			give(c, cc)
			within(t, "serving", all.Wait)
			for i, got := range p.requests() {
				if want := "GET /" + string(rune('a'+i)) + " "; got != want {
					t.Errorf("request %d is %q", i, got)
				}
			}
		})
	}
}

func TestPoolSetMaxConnsDown(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	release := held(t, c, 3)
	held(t, c, 2)()
	checkPool(t, c, 5, 2)
	c.SetMaxConns(2)
	checkPool(t, c, 3, 0) // those in use remain
	if _, _, err := c.Get(nil, p.url("/")); !errors.Is(err, ErrNoFreeConns) {
		t.Error(err)
	}
	release()
	checkPool(t, c, 2, 2)
	c.SetMaxConns(0)
	held(t, c, 4)()
	checkPool(t, c, 4, 4)
}

// A waiter that gives up at the moment when it is served gives back what it got.
func TestPoolAbandonedHandOff(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	c.MaxConns, c.MaxConnWaitTimeout = 1, clientPatience
	for range 300 {
		cc, err := c.AcquireConn(clientPatience, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				req, resp := newCall("GET", p.url("/"))
				_ = c.DoContext(ctx, req, resp)
			})
		}
		eventually(t, "both wait", func() bool { return c.waiters() == 2 })
		all.Go(cancel)
		all.Go(func() { c.ReleaseConn(cc) })
		within(t, "the hand-off", all.Wait)
		if open, idle := c.ConnsCount(), c.IdleConnsCount(); open != idle || open > 1 || c.waiters() != 0 {
			t.Fatalf("%d open, %d idle, %d wait", open, idle, c.waiters())
		}
	}
}
