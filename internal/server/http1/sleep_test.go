package http1_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// onSleepers runs a test on an engine that has connections sleep, on one that uses their
// protocols again, and on one that does neither.
func onSleepers(t *testing.T, test func(t *testing.T, c *http1test.Conn)) {
	t.Helper()
	for name, c := range map[string]*http1test.Conn{"steady": {}, "sleeps": {Sleeps: true}, "reuses": {Reuses: true}} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// TestSleepRemembers what belongs to a connection, not to a request.
func TestSleepRemembers(t *testing.T) {
	onSleepers(t, func(t *testing.T, c *http1test.Conn) {
		var ids, numbers []uint64
		var times []time.Time
		s := quietServer(func(ctx *sluice.RequestCtx) {
			ids, numbers, times = append(ids, ctx.ConnID()), append(numbers, ctx.ConnRequestNum()), append(times, ctx.ConnTime())
			if ctx.IsTLS() || ctx.RemoteAddr().String() != "127.0.0.2:40000" || ctx.LocalAddr().String() != "127.0.0.1:80" {
				t.Errorf("the connection is %v, TLS=%v", ctx, ctx.IsTLS())
			}
		})
		for range 6 {
			converse(t, s) // connections before
		}
		p := c.Open(acceptorOf(s))
		for range 3 {
			c.Feed(t, p, []byte(simpleGet))
			p = c.Pause(p)
			c.Feed(t, p, []byte("\r\n")) // is no request
			p = c.Pause(p)
		}
		p.Closed(nil)
		if fmt.Sprint(ids, numbers) != "[7 7 7] [1 2 3]" || times[0] != times[1] || times[1] != times[2] || c.NetConns != 0 {
			t.Errorf("ids %v, numbers %v, times %v, %d connections made", ids, numbers, times, c.NetConns)
		}
	})
}

// TestSleepKeepsLimits of a connection's life.
func TestSleepKeepsLimits(t *testing.T) {
	tests := []struct {
		name  string
		set   func(*sluice.Server)
		sends string
		last  engine.Next
	}{
		{"no limit", func(*sluice.Server) {}, "200 200 200", engine.Read},
		{"requests", func(s *sluice.Server) { s.MaxRequestsPerConn = 2 }, "200 200", engine.Close},
		{"age", func(s *sluice.Server) { s.MaxKeepaliveDuration = 1 }, "200", engine.Close},
	}
	for _, test := range tests {
		onSleepers(t, func(t *testing.T, c *http1test.Conn) {
			s := quietServer(echoHandler)
			test.set(s)
			sent, last := c.Converse(t, acceptorOf(s), []byte(simpleGet), []byte(simpleGet), []byte(simpleGet))
			if codes := strings.Join(answeredCodes(sent), " "); codes != test.sends || last != test.last && last != engine.Read {
				t.Errorf("%s: answered %s, ended with %v", test.name, codes, last)
			}
			if isLast := strings.Contains(sent, "Connection: close"); isLast != (test.last == engine.Close) {
				t.Errorf("%s: announced the end: %v", test.name, isLast)
			}
		})
	}
}

// TestSleepKeepsTime: time-outs of an idle connection are the engine's, so that
// waking asks the engine for nothing.
func TestSleepKeepsTime(t *testing.T) {
	s := quietServer(echoHandler)
	s.IdleTimeout, s.ReadTimeout, s.WriteTimeout = time.Minute, time.Second, time.Hour
	c := &http1test.Conn{}
	a := acceptorOf(s)
	p := c.Open(a)
	c.Feed(t, p, []byte(simpleGet))
	if !p.Pause() {
		t.Fatal("not idle")
	}
	memo := memoOf(p.(engine.Sleeper))
	p = a.(engine.Waker).Wake(nil, memo) // a call on the conn would panic
	if got := memoOf(p.(engine.Sleeper)); got != memo {
		t.Errorf("remembers %v, then %v", memo, got)
	}
	if c.ReadTimeout != time.Minute || c.WriteTimeout != time.Hour {
		t.Errorf("time-outs are %v and %v", c.ReadTimeout, c.WriteTimeout)
	}
}

// TestSleepReportsStates: ConnState cannot tell whether connections sleep, and
// gets the same net.Conn all along.
func TestSleepReportsStates(t *testing.T) {
	tests := []struct {
		name  string
		steps []string
		want  string
	}{
		{"nothing sent", nil, "new closed"},
		{"two", []string{simpleGet, simpleGet}, "new active idle active idle closed"},
		{"empty lines", []string{simpleGet, "\r\n", "\r\n" + simpleGet}, "new active idle active idle active idle closed"},
		{"cut", []string{simpleGet, "G"}, "new active idle active closed"},
	}
	for _, test := range tests {
		onSleepers(t, func(t *testing.T, c *http1test.Conn) {
			var states []string
			s := quietServer(echoHandler)
			s.ConnState = func(nc net.Conn, state sluice.ConnState) {
				states = append(states, state.String())
				if nc != net.Conn(http1test.NetConn{Conn: c}) {
					t.Errorf("%s: %v of %v", test.name, state, nc)
				}
			}
			p := c.Open(acceptorOf(s))
			p = c.Pause(p)
			for _, in := range test.steps {
				c.Feed(t, p, []byte(in))
				p = c.Pause(p)
			}
			p.Closed(nil)
			if got := strings.Join(states, " "); got != test.want {
				t.Errorf("%s: %s, want %s", test.name, got, test.want)
			}
		})
	}
}

// TestSleepLeavesOthersAlone: a ctx that goroutines still use after its request
// keeps its connection's identity, whatever becomes of that.
func TestSleepLeavesOthersAlone(t *testing.T) {
	handlers := map[string]sluice.RequestHandler{
		"done":    func(ctx *sluice.RequestCtx) { ctx.Done() },
		"timeout": func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") },
	}
	for name, handler := range handlers {
		onSleepers(t, func(t *testing.T, c *http1test.Conn) {
			var kept *sluice.RequestCtx
			s := quietServer(func(ctx *sluice.RequestCtx) {
				if kept == nil {
					kept = ctx
					handler(ctx)
				}
			})
			p := c.Open(acceptorOf(s))
			c.Feed(t, p, []byte(simpleGet))
			p = c.Pause(p)
			c.Feed(t, p, []byte(simpleGet))
			p = c.Pause(p)
			p.Closed(nil)
			c.IsOver = true
			other := &http1test.Conn{Sleeps: c.Sleeps, Reuses: c.Reuses}
			other.Converse(t, acceptorOf(s), []byte(simpleGet), []byte(simpleGet))
			if kept.ConnID() != 1 || kept.RemoteAddr().String() != "127.0.0.2:40000" || kept.LocalAddr().String() != "127.0.0.1:80" ||
				kept.Conn().RemoteAddr() == nil || kept.IsTLS() {
				t.Errorf("%s: the ctx is now of connection %d, %v", name, kept.ConnID(), kept.RemoteAddr())
			}
			if _, err := kept.Conn().Write([]byte("x")); err == nil {
				t.Errorf("%s: the connection is still the ctx's", name)
			}
		})
	}
}

// TestSleepAllowsTLS: a connection that is TLS is so after it woke.
func TestSleepAllowsTLS(t *testing.T) {
	c := &secureConn{}
	a := acceptorOf(&sluice.Server{})
	p, _ := a.Open(c)
	m := memoOf(p.(engine.Sleeper))
	if m.Served != http1.MemoTLS {
		t.Fatalf("after Open: %+v", m)
	}
	if woken := memoOf(a.(engine.Waker).Wake(c, m).(engine.Sleeper)); woken != m {
		t.Errorf("%+v woke as %+v", m, woken)
	}
}

// TestReuse: a protocol becomes that of another connection of its server, unless that is of
// another kind.
func TestReuse(t *testing.T) {
	c := &http1test.Conn{}
	p := c.Open(acceptorOf(quietServer(echoHandler)))
	r := p.(engine.Reusable)
	c.Feed(t, p, []byte(simpleGet))
	p.Pause()
	first := r.Retire()
	for bits := uint64(0); bits < 1<<http1.MemoShift; bits++ {
		m := engine.Memo{ID: 9, Served: 5<<http1.MemoShift | bits, Opened: 7}
		if is := r.Reuse(c, m, 0); is != (bits&^http1.MemoTLS == 0) {
			t.Errorf("%b: reused %v", bits, is)
		} else if is {
			if got := r.Retire(); got != m {
				t.Errorf("%+v became %+v", m, got)
			}
		}
	}
	other := &http1test.Conn{}
	if !r.Reuse(other, first, 0) {
		t.Fatal("not reused")
	}
	c.IsOver = true
	if next := other.Feed(t, p, []byte(simpleGet)); next != engine.Read || len(other.Sent) == 0 {
		t.Errorf("%v, sent %q", next, other.Sent)
	}
	p.Closed(nil)
}

// TestArrived: the first request after Reuse begins when its input has arrived. One that has to
// wait for the rest of itself begins when its first piece is read, and so do later ones.
func TestArrived(t *testing.T) {
	var began time.Time
	c := &http1test.Conn{}
	p := c.Open(acceptorOf(quietServer(func(ctx *sluice.RequestCtx) { began = ctx.Time() })))
	c.Feed(t, p, []byte(simpleGet))
	for _, test := range []struct {
		pieces    []string
		isEarlier bool
	}{
		{[]string{simpleGet}, true},
		{[]string{simpleGet[:1], simpleGet[1:]}, false},
	} {
		p.Pause()
		m := p.(engine.Reusable).Retire()
		if !p.(engine.Reusable).Reuse(c, m, clock.Nanos()-int64(time.Hour)) {
			t.Fatal("not reused")
		}
		for i, in := range [][]string{test.pieces, {simpleGet}} {
			for _, piece := range in {
				c.Feed(t, p, []byte(piece))
			}
			if is := time.Since(began) > time.Hour/2; is != (test.isEarlier && i == 0) {
				t.Errorf("%q, request %d: began at %v", test.pieces, i, began)
			}
		}
	}
	p.Closed(nil)
}

// secureConn is an engine.Conn about a TLS connection.
type secureConn struct{ http1test.Conn }

func (c *secureConn) IsSocket() bool { return false }

func (c *secureConn) NetConn() net.Conn {
	return tls.Server(http1test.NetConn{Conn: &c.Conn}, &tls.Config{})
}

// memoOf has p sleep.
func memoOf(p engine.Sleeper) engine.Memo {
	m, _ := p.Sleep()
	return m
}
