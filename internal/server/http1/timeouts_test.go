package http1_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

func TestDeadlinesOfConnection(t *testing.T) {
	c := &http1test.Conn{}
	s := quietServer(func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/own" {
			if err := ctx.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil || c.WriteTimeout < time.Minute {
				t.Errorf("after SetWriteDeadline: %v, %v", c.WriteTimeout, err)
			}
		}
		echoHandler(ctx)
	})
	s.ReadTimeout, s.IdleTimeout, s.WriteTimeout = 2*time.Second, 3*time.Second, 4*time.Second
	s.HeaderReceived = func(h *sluice.RequestHeader) sluice.RequestConfig {
		if string(h.RequestURI()) == "/slow" {
			return sluice.RequestConfig{ReadTimeout: 7 * time.Second, WriteTimeout: 8 * time.Second}
		}
		return sluice.RequestConfig{}
	}
	p := c.Open(acceptorOf(s))
	steps := []struct {
		in          string
		read, write time.Duration
	}{
		{"", 3 * time.Second, 4 * time.Second},
		{"P", 2 * time.Second, 4 * time.Second},
		{"OST /fast HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n", 2 * time.Second, 4 * time.Second},
		{"x", 2 * time.Second, 4 * time.Second},
		{"x", 3 * time.Second, 4 * time.Second},
		{"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n", 7 * time.Second, 8 * time.Second},
		{"x", 3 * time.Second, 4 * time.Second},
		{"GET /own HTTP/1.1\r\nHost: h\r\n\r\n", 3 * time.Second, 4 * time.Second},
		{"G", 2 * time.Second, 4 * time.Second},
	}
	for i, step := range steps {
		if next := c.Feed(t, p, []byte(step.in)); next != engine.Read {
			t.Fatalf("step %d: %v", i, next)
		}
		if c.ReadTimeout != step.read || c.WriteTimeout != step.write {
			t.Errorf("step %d: time-outs are %v and %v, want %v and %v", i, c.ReadTimeout, c.WriteTimeout, step.read, step.write)
		}
	}
	p.Closed(nil)
}

// TestEmptyLinesTakeIdleTime: a client that sends empty lines has no more time for its next
// request than one that sends nothing.
func TestEmptyLinesTakeIdleTime(t *testing.T) {
	const unset = -1
	steps := []struct {
		in   string
		want time.Duration // that was set; unset: none
	}{
		{"\r\n", unset},
		{"\r", unset},
		{"\n", unset},
		{"\r\n\r\nG", 2 * time.Second},
		{"ET / HTTP/1.1\r\nHost: h\r\n\r\n", 3 * time.Second},
		{"\r\n", unset},
		{simpleGet + "\r\n", 3 * time.Second},
		{"\r\n", unset},
		{simpleGet + "\r", 3 * time.Second},
		{"\n", unset},
		{"P", 2 * time.Second},
	}
	onSleepers(t, func(t *testing.T, c *http1test.Conn) {
		s := quietServer(echoHandler)
		s.ReadTimeout, s.IdleTimeout = 2*time.Second, 3*time.Second
		p := c.Open(acceptorOf(s))
		for i, step := range steps {
			p = c.Pause(p)
			c.ReadTimeout = unset
			if next := c.Feed(t, p, []byte(step.in)); next != engine.Read {
				t.Fatalf("step %d: %v", i, next)
			}
			if p = c.Pause(p); c.ReadTimeout != step.want {
				t.Errorf("step %d, %q: %v was set, want %v", i, step.in, c.ReadTimeout, step.want)
			}
		}
		p.Closed(nil)
	})
}

func TestTimedOut(t *testing.T) {
	tests := []struct {
		name, in, status string
		last             engine.Next
	}{
		{"nothing", "", "", engine.CloseLinger},
		{"empty lines", "\r\n", "", engine.CloseLinger},
		{"idle", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200", engine.CloseLinger},
		{"first byte", "G", "408", engine.CloseLinger},
		{"head", "GET / HTTP/1.1\r\nHost", "408", engine.CloseLinger},
		{"body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc", "408", engine.CloseLinger},
		{"chunks", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "408", engine.CloseLinger},
		{"trailer", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX", "408", engine.CloseLinger},
	}
	for _, test := range tests {
		var got error
		s := quietServer(echoHandler)
		s.ReadTimeout = time.Minute
		s.ErrorHandler = func(ctx *sluice.RequestCtx, err error) { got = err }
		c := &http1test.Conn{IsTimingOut: true}
		sent, last := c.Converse(t, acceptorOf(s), []byte(test.in))
		if codes := strings.Join(answeredCodes(sent), " "); codes != test.status || last != test.last {
			t.Errorf("%s: %v, %q", test.name, last, sent)
		}
		if netErr, ok := got.(net.Error); (test.status == "408") != (ok && netErr.Timeout()) {
			t.Errorf("%s: ErrorHandler got %v", test.name, got)
		}
	}
}

// recordStarts opens a connection to s. starts expects the times of its requests, since now.
func recordStarts(s *sluice.Server) (c *http1test.Steady, starts func(t *testing.T, want ...time.Duration)) {
	var got []time.Duration
	begun, handler := time.Now(), s.Handler
	s.Handler = func(ctx *sluice.RequestCtx) {
		got = append(got, ctx.Time().Sub(begun))
		handler(ctx)
	}
	return http1test.OpenSteady(acceptorOf(s), false), func(t *testing.T, want ...time.Duration) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("requests began at %v, want %v", got, want)
		}
	}
}

// TestStartOfPipelinedRequests: requests that were read together have one time. One
// that is not complete yet has its own, so that the handlers of those before it do not
// use up its ReadTimeout.
func TestStartOfPipelinedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, starts := recordStarts(&sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			time.Sleep(time.Second)
			if string(ctx.Path()) == "/times-out" {
				ctx.TimeoutError("late")
			}
		}, Logger: silence{}})
		late := "GET /times-out HTTP/1.1\r\nHost: h\r\n\r\n"
		for _, in := range []string{
			simpleGet + simpleGet,                                                  // 0, 0
			simpleGet,                                                              // 2
			simpleGet + "\r\n",                                                     // 3
			simpleGet,                                                              // 4
			simpleGet + smallPost[:len(smallPost)-3], smallPost[len(smallPost)-3:], // 5, 6
			late + simpleGet, // 7, 7
		} {
			c.RoundTrip(t, []byte(in))
		}
		want := []time.Duration{0, 0, 2, 3, 4, 5, 6, 7, 7}
		for i := range want {
			want[i] *= time.Second
		}
		starts(t, want...)
	})
}

// TestStartOfPipelinedStreams: a streamed body has its own start, too, because it is
// waited for.
func TestStartOfPipelinedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, starts := recordStarts(&sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.PostBody()
			time.Sleep(time.Second)
		}})
		c.RoundTrip(t, []byte(simpleGet+smallPost))
		starts(t, 0, time.Second)
	})
}

// TestStartAfterADrain: a request that comes after the rest of a body has its own start.
func TestStartAfterADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, starts := recordStarts(&sluice.Server{StreamRequestBody: true, Handler: func(*sluice.RequestCtx) {}})
		for _, in := range []string{smallPost[:len(smallPost)-3], smallPost[len(smallPost)-3:], simpleGet} {
			c.RoundTrip(t, []byte(in))
			time.Sleep(time.Second)
		}
		starts(t, 0, 2*time.Second)
	})
}

// TestStartOfPieces: a request that was read in part with the one before begins with its first
// wait, however many follow.
func TestStartOfPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, starts := recordStarts(&sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			time.Sleep(time.Second)
		}})
		for _, in := range []string{simpleGet + smallPost[:9], smallPost[9:20], smallPost[20:]} {
			c.RoundTrip(t, []byte(in))
			time.Sleep(time.Second)
		}
		starts(t, 0, time.Second)
	})
}

// TestMaxLife: a request that begins at its end is not the last one, one after it is.
func TestMaxLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quietServer(echoHandler)
		s.MaxKeepaliveDuration = time.Second
		c := &http1test.Conn{}
		p := c.Open(acceptorOf(s))
		for _, step := range []struct {
			wait time.Duration
			next engine.Next
		}{{time.Second, engine.Read}, {time.Nanosecond, engine.Close}} {
			time.Sleep(step.wait)
			if next := c.Feed(t, p, []byte(simpleGet)); next != step.next {
				t.Errorf("after %v more: %v", step.wait, next)
			}
		}
		p.Closed(nil)
	})
}
