package http1

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A testConn is the engine's side of a connection whose input comes by feed.
type testConn struct {
	engine.Conn
	unread []byte
	sent   []byte
}

func (c *testConn) Buffered() []byte                         { return c.unread }
func (c *testConn) SetReadDeadline(int64, time.Duration)     {}
func (c *testConn) SetWriteTimeout(time.Duration)            {}
func (c *testConn) NetConn() net.Conn                        { return nil }
func (c *testConn) Write(p []byte) (int, error)              { c.sent = append(c.sent, p...); return len(p), nil }
func (c *testConn) WriteBuffers(*net.Buffers) (int64, error) { return 0, errors.ErrUnsupported }

// feed has p take all of in, and returns what it wants then.
func (c *testConn) feed(p *Conn, in string) engine.Next {
	for c.unread = []byte(in); len(c.unread) > 0; {
		used, next := p.Feed(c.unread)
		c.unread = c.unread[used:]
		for next == engine.Run {
			var out []byte
			if out, next = p.Run(nil); next != engine.Abort {
				c.sent = append(c.sent, out...)
			}
		}
		if next != engine.Read {
			return next
		}
	}
	return engine.Read
}

// A testHost has one Request at a time, which answers with the body.
type testHost struct {
	server.Request // nil: what HTTP/1.1 does not need
	x              *Exchange
	header         message.RequestHeader
	response       message.ResponseHeader
	cfg            Config
	acquired       int // less those that were released
	body           []byte
	failure        error
	outcome        server.Outcome
	opens          engine.Protocol
	isTorn         bool // Respond fails
}

func open() (*testHost, *testConn, *Conn) {
	h, c := &testHost{}, &testConn{}
	h.cfg = Config{Limits: h1.DefaultLimits, KeepAlive: true, Closing: new(atomic.Bool), Hijacked: new(atomic.Int64)}
	return h, c, Open(c, h, &h.cfg, server.Facts{})
}

func (h *testHost) NewRequest(x server.Exchange, _ server.Request) server.Request {
	h.acquired++
	h.x = x.(*Exchange)
	return h
}

func (h *testHost) Headers() (*message.RequestHeader, *message.ResponseHeader) {
	return &h.header, &h.response
}

func (h *testHost) TellState(net.Conn, State)                    {}
func (h *testHost) Fail(error)                                   {}
func (h *testHost) Log(engine.Conn, error)                       {}
func (h *testHost) RunHijacked(net.Conn, func(net.Conn)) bool    { return true }
func (h *testHost) Begin(*server.Facts, int64)                   {}
func (h *testHost) HeadComplete(bool) error                      { return nil }
func (h *testHost) HeaderReceived() error                        { return nil }
func (h *testHost) ExpectBody(int64) (bool, error)               { return false, nil }
func (h *testHost) ExpectContinue(bool) (bool, error)            { return true, nil }
func (h *testHost) BodyTimeout() time.Duration                   { return 0 }
func (h *testHost) Serve(int64) (server.Request, server.Outcome) { return nil, h.outcome }
func (h *testHost) Refuse(err, _ error)                          { h.failure = err }
func (h *testHost) Decline(int)                                  {}
func (h *testHost) BeginBody() {
	h.x.SendHead(&message.ResponseForm{Length: -1, HasContent: true}, nil, false)
}
func (h *testHost) Hijacker() func(net.Conn)          { return nil }
func (h *testHost) Unread() (server.BodyState, error) { return server.BodyRead, nil }
func (h *testHost) MayWait() error                    { return nil }
func (h *testHost) ReadLimit() (int64, time.Duration) { return 0, 0 }
func (h *testHost) Shrink()                           {}
func (h *testHost) Release(bool)                      { h.acquired-- }

func (h *testHost) OpenHTTP2(engine.Conn, *server.Facts, []byte, int64) engine.Protocol { return nil }

func (h *testHost) Open(_ engine.Conn, out []byte) (engine.Protocol, []byte) { return h.opens, out }

func (h *testHost) BodyReceived(p []byte, _ uint64) error {
	h.body = append(h.body, p...)
	return nil
}

func (h *testHost) End() server.Request {
	h.header.Reset()
	h.response.Reset()
	return nil
}

func (h *testHost) Respond() bool {
	f := message.ResponseForm{Length: int64(len(h.body)), HasContent: true}
	defer func() { h.body = h.body[:0] }()
	return h.x.SendHead(&f, h.body, true) && !h.isTorn
}

const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// TestRequests: a Request gets what a connection brings, in any pieces, and answers.
func TestRequests(t *testing.T) {
	const chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"
	const script = get + chunked + "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\nde"
	for _, size := range []int{1, 7, len(script)} {
		_, c, p := open()
		next := engine.Read
		for in := script; in != ""; in = in[min(size, len(in)):] {
			next = c.feed(p, in[:min(size, len(in))])
		}
		if next != engine.Close || p.facts.Served != 3 {
			t.Errorf("in pieces of %d: %v after %d requests", size, next, p.facts.Served)
		}
		for _, want := range []string{"0\r\n\r\n", "3\r\n\r\nabc", "2\r\nConnection: close\r\n\r\nde"} {
			_, after, ok := bytes.Cut(c.sent, []byte("Content-Length: "+want))
			if c.sent = after; !ok {
				t.Errorf("in pieces of %d: no %q", size, want)
			}
		}
		p.Closed(nil)
	}
}

// TestRefusedRequest: the Request learns why its head is refused, and the connection ends.
func TestRefusedRequest(t *testing.T) {
	h, c, p := open()
	if next := c.feed(p, "GET / HTTP/1.1\r\n\r\n"); next != engine.CloseLinger || h.failure == nil || len(c.sent) == 0 {
		t.Errorf("%v, %v, %q", next, h.failure, c.sent)
	}
	p.Closed(nil)
}

// TestIdleConnectionHoldsNoContext: without an Exchange there is no RequestCtx, either.
// That makes idle connections cheap.
func TestIdleConnectionHoldsNoContext(t *testing.T) {
	h, c, p := open()
	c.feed(p, get)
	if isIdle := p.Pause(); !isIdle || h.acquired != 0 || p.x != nil || p.phase != readIdle {
		t.Errorf("idle %v, phase %d, %d exchanges", isIdle, p.phase, h.acquired)
	}
	c.feed(p, "G")
	if isIdle := p.Pause(); isIdle || h.acquired != 1 {
		t.Errorf("in the middle of a head: idle %v, %d exchanges", isIdle, h.acquired)
	}
	p.Closed(nil)
	if h.acquired != 0 {
		t.Errorf("%d exchanges after the end", h.acquired)
	}
}

// TestDiscardStopsAfterTheLimit: as many bytes of a body as the limit are
// discarded, and no more.
func TestDiscardStopsAfterTheLimit(t *testing.T) {
	for length, want := range map[int]error{drainLimit: nil, drainLimit + 1: errNotDrained} {
		x := &Exchange{bodyLeft: 1 << 40}
		if used, done, err := x.discard([]byte(strings.Repeat("x", length))); used != length || done || err != want {
			t.Errorf("%d bytes: %d, %v, %v", length, used, done, err)
		}
	}
}

// TestEndRequest: no mark of a request stays for the next one, and no memory for a large
// trailer section.
func TestEndRequest(t *testing.T) {
	_, _, p := open()
	p.prepareExchange()
	x := p.x
	x.trailer.Append(make([]byte, 1<<20))
	x.trailer.Reset()
	x.marks = marks{inputCut, outputFile, sequelClose, true, true, true, true}
	x.blocking.Store(&engine.BlockingConn{})
	p.Closed(nil)
	if x.marks != (marks{}) || x.blocking.Load() != nil {
		t.Errorf("%+v, %v", x.marks, x.blocking.Load())
	}
	if n := cap(x.trailer.Raw()); n >= 1<<20 {
		t.Errorf("%d bytes for trailer fields", n)
	}
}

// A nextProtocol has a connection after HTTP/1.1.
type nextProtocol struct {
	engine.Protocol
	closed error
}

func (p *nextProtocol) Closed(err error) { p.closed = err }

// TestOutcomes: what follows a handler. After another protocol has the connection, that ends
// with it.
func TestOutcomes(t *testing.T) {
	const last = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	torn := func(h *testHost) { h.isTorn = true }
	for name, test := range map[string]struct {
		outcome server.Outcome
		set     func(h *testHost)
		in      string
		next    engine.Next
		isSent  bool
	}{
		"a response":              {server.OutcomeResponse, nil, get, engine.Read, true},
		"a torn one":              {server.OutcomeResponse, torn, get, engine.Abort, false},
		"a panic":                 {server.OutcomePanic, nil, get, engine.Close, true},
		"nothing":                 {server.OutcomeAbort, nil, get, engine.Abort, false},
		"a protocol":              {server.OutcomeTakeover, nil, get, engine.Switch, true},
		"none":                    {server.OutcomeTakeover, func(h *testHost) { h.opens = nil }, get, engine.Close, true},
		"none after the last one": {server.OutcomeTakeover, nil, last, engine.Close, true},
		"a protocol, torn":        {server.OutcomeTakeover, torn, get, engine.Abort, false},
		"a body":                  {server.OutcomeBody, nil, get, engine.Switch, true},
		"a hijack handler":        {server.OutcomeHijack, nil, get, engine.Detach, true},
		"without a response":      {server.OutcomeSilent, nil, get, engine.Detach, false},
	} {
		h, c, p := open()
		next := &nextProtocol{}
		h.outcome, h.opens = test.outcome, next
		if test.set != nil {
			test.set(h)
		}
		got := c.feed(p, test.in)
		if isSent := strings.HasPrefix(string(c.sent), "HTTP/1.1 200"); got != test.next || isSent != test.isSent {
			t.Errorf("%s: %v, %q", name, got, c.sent)
		}
		if got != engine.Switch {
			p.Closed(nil)
			continue
		}
		if p.Closed(errors.ErrUnsupported); next.closed != errors.ErrUnsupported {
			t.Errorf("%s: its connection ends with %v", name, next.closed)
		}
	}
	h, c, p := open()
	next := &nextProtocol{}
	h.outcome, h.opens = server.OutcomeTakeover, next
	if c.feed(p, get); p.Successor() != next || h.acquired != 0 {
		t.Errorf("%d exchanges after the successor", h.acquired)
	}
}

// TestAbortKeepsWholeAnswers to requests before.
func TestAbortKeepsWholeAnswers(t *testing.T) {
	h, c, p := open()
	c.unread = []byte(get + get)
	used, _ := p.Feed(c.unread)
	out, next := p.Run(nil)
	if next != engine.Read || len(out) == 0 {
		t.Fatalf("%v, %q", next, out)
	}
	answer := string(out)
	h.outcome = server.OutcomeAbort
	p.Feed(c.unread[used:])
	if out, next = p.Run(out); string(out) != answer || next != engine.CloseLinger {
		t.Errorf("%v, %q", next, out)
	}
	p.Closed(nil)
}
