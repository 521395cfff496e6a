package sluice

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// held makes n requests that the peer answers when release is called. It
// returns when all have a connection.
func held(t *testing.T, c *HostClient, n int) (release func()) {
	t.Helper()
	var gives []func()
	for range n {
		cc, err := c.AcquireConn(0, false)
		if err != nil {
			t.Fatal(err)
		}
		gives = append(gives, func() { c.ReleaseConn(cc) })
	}
	return func() {
		for _, give := range gives {
			give()
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
		var gives []func()
		for i := range 3 {
			gives = append(gives, held(t, c, 1))
			eventually(t, "accepted", func() bool { return p.accepted() == i+1 })
		}
		for _, give := range gives {
			give()
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
	for _, name := range []string{"given back", "closed", "more"} {
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
			switch name {
			case "given back":
				c.ReleaseConn(cc)
			case "closed":
				c.CloseConn(cc)
			case "more":
				c.SetMaxConns(2)
			}
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

// TestClientPoolSettings: what the fields of a HostClient make of the pools.
func TestClientPoolSettings(t *testing.T) {
	var c HostClient
	if s := c.poolSettings(); s.MaxConns != 512 || s.MaxIdle != 10*time.Second || s.IsLIFO {
		t.Errorf("%+v", s)
	}
	if s := c.http2Settings(); s.MaxConns != 4 || s.MaxIdle != 10*time.Second || s.MaxAge != 0 {
		t.Errorf("%+v", s)
	}
	c = HostClient{MaxConns: 1, MaxHTTP2Conns: 1, MaxIdleConnDuration: 1, MaxConnDuration: 2, ConnPoolStrategy: LIFO}
	if s := c.poolSettings(); s.MaxConns != 1 || s.MaxIdle != 1 || !s.IsLIFO {
		t.Errorf("%+v", s)
	}
	if s := c.http2Settings(); s.MaxConns != 1 || s.MaxIdle != 1 || s.MaxAge != 2 {
		t.Errorf("%+v", s)
	}
	c.MaxConns = -1
	if s := c.poolSettings(); s.MaxConns != 512 {
		t.Errorf("%+v", s)
	}
}

// TestAcquirePhase: a call that looks for a connection is in PhaseWait, also after an
// attempt that came further.
func TestAcquirePhase(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := &HostClient{Addr: "h:80", HTTP2: HTTP2Only, Dial: func(string) (net.Conn, error) { panic("dialed") }}
	for _, kind := range []connKind{forHTTP1, forTurn, forEither} {
		var phase *PhaseError
		if _, _, err := c.acquire(&clientCall{Bounds: clock.Bounds{Context: ended}, phase: PhaseRead}, kind); !errors.As(err, &phase) || phase.Phase != PhaseWait {
			t.Errorf("%d: %v", kind, err)
		}
	}
}

// TestClientPools: what is returned to a pool is used again.
func TestClientPools(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector drops values of pools")
	}
	var c HostClient
	var pipeline PipelineClient
	stub := &stubConn{}
	for name, use := range map[string]func(){
		"reader":   func() { c.ReleaseReader(c.AcquireReader(stub)) },
		"writer":   func() { c.ReleaseWriter(c.AcquireWriter(stub)) },
		"fetching": func() { releaseFetching(acquireFetching()) },
		"call":     func() { releaseCall(acquireCall()) },
		"stream":   func() { releaseHTTP2Call(acquireHTTP2Call()) },
		"timer":    func() { ReleaseTimer(AcquireTimer(time.Hour)) },
		"work":     func() { pipeline.works.release(pipeline.works.acquire(&pipeline)) },
	} {
		if n := testing.AllocsPerRun(100, use); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	f := acquireFetching()
	f.req.SetBodyString("body")
	f.resp.SetBodyString("body")
	f.req.call = &clientCall{wants: wantsBytes}
	if releaseFetching(f); len(f.req.Body())+len(f.resp.Body()) != 0 || f.req.call != nil {
		t.Errorf("%q, %q, %+v", f.req.Body(), f.resp.Body(), f.req.call)
	}
}

// stubConn is a connection without a peer. It tells what it was asked.
type stubConn struct {
	net.Conn
	told     []string
	writes   []int
	failAt   int    // the number of the Write that fails, from 1
	limitErr error  // of setting a deadline
	failing  string // the only deadline whose setting fails; "": all
}

var errStub = errors.New("stub")

func (c *stubConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	if len(c.writes) == c.failAt {
		return 7, errStub
	}
	return len(p), nil
}

func (c *stubConn) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func (c *stubConn) tell(what string, at time.Time) error {
	switch {
	case at.IsZero():
		what += " none"
	case at.Equal(clock.Past()):
		what += " past"
	default:
		what += " " + time.Until(at).String()
	}
	c.told = append(c.told, what)
	if !strings.HasPrefix(what, c.failing) {
		return nil
	}
	return c.limitErr
}

func (c *stubConn) SetDeadline(at time.Time) error { return c.tell("both", at) }

func (c *stubConn) SetReadDeadline(at time.Time) error { return c.tell("read", at) }

func (c *stubConn) SetWriteDeadline(at time.Time) error { return c.tell("write", at) }

func (c *stubConn) Close() error { c.told = append(c.told, "close"); return nil }

// Prewarm calls the hooks of the context, or else those of the client.
func TestPrewarmTrace(t *testing.T) {
	own, other := &ClientTrace{}, &ClientTrace{}
	c := &HostClient{Trace: own}
	if call := c.newCall(t.Context()); call.trace != own || call.Context != t.Context() {
		t.Errorf("%+v", call)
	}
	if call := c.newCall(WithClientTrace(t.Context(), other)); call.trace != other {
		t.Errorf("%+v", call)
	}
}

// Who waited, and is given a connection that turns out to be dead, must make
// one in its place, and not wait again after all others.
func TestDeadConnectionKeepsTheTurn(t *testing.T) {
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
	held.Conn().Close() // as if the server had
	c.ReleaseConn(held)
	done.Wait()
	if got := p.requests(); len(got) != 2 || got[0] != "GET /first " {
		t.Errorf("in the order %q", got)
	}
	checkPool(t, c, 1, 1)
}

// TestPoolWaitersOrder: who waits for a connection is served by ConnPoolStrategy,
// and those that gave up are passed over.
func TestPoolWaitersOrder(t *testing.T) {
	const waiters, givesUp = 5, 2
	for _, test := range []struct {
		strategy ConnPoolStrategyType
		want     []int
	}{
		{FIFO, []int{0, 1, 3, 4}},
		{LIFO, []int{4, 3, 1, 0}},
	} {
		p := newClientPeer(t, func(c *peerConn) { c.gone() })
		c := p.host()
		c.MaxConns, c.ConnPoolStrategy = 1, test.strategy
		cc, err := c.AcquireConn(0, false)
		if err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			waiter int
			conn   *clientConn
			err    error
		}
		outcomes := make(chan outcome)
		var giveUp context.CancelFunc
		for i := range waiters {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i == givesUp {
				giveUp = cancel
			}
			go func() {
				_, conn, err := c.acquire(&clientCall{Bounds: clock.Bounds{Context: ctx}}, forHTTP1)
				outcomes <- outcome{i, conn, err}
			}()
			eventually(t, "the waiter", func() bool { return c.waiters() == i+1 })
		}
		giveUp()
		if o := <-outcomes; o.waiter != givesUp || !errors.Is(o.err, context.Canceled) || c.waiters() != waiters-1 {
			t.Errorf("strategy %d: waiter %d ended with %v; %d wait", test.strategy, o.waiter, o.err, c.waiters())
		}
		var order []int
		for range test.want {
			c.release(cc)
			o := <-outcomes
			if o.err != nil || o.conn != cc {
				t.Fatalf("strategy %d: waiter %d got another connection, or %v", test.strategy, o.waiter, o.err)
			}
			order = append(order, o.waiter)
		}
		c.release(cc)
		if !slices.Equal(order, test.want) {
			t.Errorf("strategy %d: served %d, want %d", test.strategy, order, test.want)
		}
		checkPool(t, c, 1, 1)
	}
}
