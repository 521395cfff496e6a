package http1

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A testConn is the engine's side of a connection whose input comes by feed.
type testConn struct {
	engine.Conn
	unread   []byte
	sent     []byte
	vectors  int // calls of WriteBuffers
	isBroken bool
	blocking net.Conn
	onGone   func()
}

var errBroken = errors.New("http1: the test's connection is broken")

func (c *testConn) Buffered() []byte                     { return c.unread }
func (c *testConn) SetReadDeadline(int64, time.Duration) {}
func (c *testConn) SetWriteTimeout(time.Duration)        {}
func (c *testConn) NetConn() net.Conn                    { return nil }
func (c *testConn) Blocking() net.Conn                   { return c.blocking }
func (c *testConn) OnPeerGone(f func())                  { c.onGone = f }

func (c *testConn) Write(p []byte) (int, error) {
	if c.isBroken {
		return 0, errBroken
	}
	c.sent = append(c.sent, p...)
	return len(p), nil
}

func (c *testConn) WriteBuffers(b *net.Buffers) (n int64, err error) {
	c.vectors++
	for _, p := range *b {
		m, err := c.Write(p)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, nil
}

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
	streams        bool // bodies
	unreadErr      error
	more           uint64          // of the last BodyReceived
	ended, shrunk  int             // calls of End, Shrink
	http2          engine.Protocol // of OpenHTTP2
	begun          string          // what that got
	failed, logged []error         // Fail, Log
	states         []State         // TellState
	left           server.BodyState

	form           message.ResponseForm                    // of the response; a Length of 0 is that of body
	serve          func() (server.Request, server.Outcome) // nil: outcome
	panics         bool                                    // the hijack handler does
	held, hijacked int                                     // exchanges, and connections of handlers, while it ran
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

func (h *testHost) TellState(_ net.Conn, s State)     { h.states = append(h.states, s) }
func (h *testHost) Fail(err error)                    { h.failed = append(h.failed, err) }
func (h *testHost) Log(_ engine.Conn, err error)      { h.logged = append(h.logged, err) }
func (h *testHost) Begin(*server.Facts, int64)        {}
func (h *testHost) HeadComplete(_, _ bool) error      { return nil }
func (h *testHost) HeaderReceived() error             { return nil }
func (h *testHost) ExpectBody(int64) (bool, error)    { return h.streams, nil }
func (h *testHost) ExpectContinue(bool) (bool, error) { return true, nil }
func (h *testHost) BodyTimeout() time.Duration        { return 0 }
func (h *testHost) Refuse(err, _ error)               { h.failure = err }
func (h *testHost) Decline(int)                       {}
func (h *testHost) BeginBody() {
	h.x.SendHead(&message.ResponseForm{Length: -1, HasContent: true}, nil, false)
}
func (h *testHost) Hijacker() (func(net.Conn), func()) { return nil, nil }
func (h *testHost) Unread() (server.BodyState, error)  { return h.left, h.unreadErr }
func (h *testHost) MayWait() error                     { return nil }
func (h *testHost) ReadLimit() (int64, time.Duration)  { return 0, 0 }
func (h *testHost) Shrink()                            { h.shrunk++ }
func (h *testHost) Release(bool)                       { h.acquired-- }

func (h *testHost) RunHijacked(net.Conn, func(net.Conn)) bool {
	h.held, h.hijacked = h.acquired, int(h.cfg.Hijacked.Load())
	return !h.panics
}

func (h *testHost) Serve(int64) (server.Request, server.Outcome) {
	if h.serve != nil {
		return h.serve()
	}
	return nil, h.outcome
}

func (h *testHost) OpenHTTP2(_ engine.Conn, _ *server.Facts, begun []byte, _ int64) engine.Protocol {
	h.begun = string(begun)
	return h.http2
}

func (h *testHost) Open(_ engine.Conn, out []byte) (engine.Protocol, []byte) { return h.opens, out }

func (h *testHost) BodyReceived(p []byte, more uint64) error {
	h.more = more
	h.body = append(h.body, p...)
	return nil
}

func (h *testHost) End() server.Request {
	h.ended++
	h.header.Reset()
	h.response.Reset()
	return nil
}

func (h *testHost) Respond() bool {
	f := h.form
	f.HasContent = true
	if f.Length == 0 {
		f.Length = int64(len(h.body))
	}
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
// That makes connections cheap that have been idle for a while.
func TestIdleConnectionHoldsNoContext(t *testing.T) {
	h, c, p := open()
	c.feed(p, get)
	isIdle := p.Pause()
	if p.Cool(); !isIdle || h.acquired != 0 || p.x != nil || p.phase != readIdle {
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
	x.progress = begun
	p.Closed(nil)
	if x.marks != (marks{}) || x.blocking.Load() != nil {
		t.Errorf("%+v, %v", x.marks, x.blocking.Load())
	}
	if n := cap(x.trailer.Raw()); n >= 1<<20 {
		t.Errorf("%d bytes for trailer fields", n)
	}
}

// unread has the handler leave a part of a streamed body.
func unread(h *testHost) { h.streams, h.left = true, server.BodyUnread }

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
		"none after the last one": {server.OutcomeTakeover, nil, last, engine.CloseQuiet, true},
		"a protocol, torn":        {server.OutcomeTakeover, torn, get, engine.Abort, false},
		"a protocol and a body":   {server.OutcomeTakeover, unread, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n", engine.CloseLinger, true},
		"a body":                  {server.OutcomeBody, nil, get, engine.Switch, true},
		"a hijack handler":        {server.OutcomeHijack, nil, get, engine.Detach, true},
		"without a response":      {server.OutcomeSilent, nil, get, engine.Detach, false},
	} {
		h, c, p := open()
		next := &nextProtocol{}
		h.outcome, h.opens = test.outcome, next
		h.cfg.TellsStates, h.cfg.Meter.Informational = true, new(atomic.Uint64)
		if test.set != nil {
			test.set(h)
		}
		got := c.feed(p, test.in)
		if n := h.cfg.Meter.Informational.Load(); n == 1 != (test.outcome == server.OutcomeSilent) || n > 1 {
			t.Errorf("%s: %d informational responses", name, n)
		}
		if isSent := strings.HasPrefix(string(c.sent), "HTTP/1.1 200"); got != test.next || isSent != test.isSent {
			t.Errorf("%s: %v, %q", name, got, c.sent)
		}
		if got != engine.Switch {
			p.Closed(nil)
			continue
		}
		p.Closed(errors.ErrUnsupported)
		if next.closed != errors.ErrUnsupported || !slices.Equal(h.states, []State{StateActive, StateHijacked}) {
			t.Errorf("%s: its connection ends with %v, after the states %v", name, next.closed, h.states)
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
	if out, next = p.Run(out); string(out) != answer || next != engine.CloseLinger || h.ended != 2 {
		t.Errorf("%v, %q, %d requests have ended", next, out, h.ended)
	}
	p.Closed(nil)
}

// TestRunKeepsNothingOfItsOutput, which is the engine's.
func TestRunKeepsNothingOfItsOutput(t *testing.T) {
	_, c, p := open()
	if c.feed(p, get); p.x.out != nil {
		t.Errorf("%q is kept", p.x.out)
	}
	p.Closed(nil)
}

// TestFailures: the Host learns of them, and logs all if it is to.
func TestFailures(t *testing.T) {
	const bad = "GET / HTTP/1.1\r\n\r\n"
	const post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	timeOut := func(p *Conn) { p.TimedOut(nil) }
	flush := func(p *Conn) {
		p.x.out = []byte("x")
		if p.x.Flush() {
			p.host.Fail(errors.ErrUnsupported)
		}
	}
	for name, test := range map[string]struct {
		set            func(h *testHost, c *testConn)
		in             string
		do             func(p *Conn)
		closed         error
		failed, logged error
	}{
		"nothing":               {nil, "", nil, nil, nil, nil},
		"a request":             {nil, get, nil, nil, nil, nil},
		"silence":               {nil, "", timeOut, nil, server.ErrTimeout, nil},
		"silence is allowed":    {func(h *testHost, _ *testConn) { h.cfg.AllowsSilence = true }, "", timeOut, nil, nil, nil},
		"silence after one":     {nil, get, timeOut, nil, nil, nil},
		"a refused one":         {nil, bad, nil, nil, nil, nil},
		"a refused one, logged": {func(h *testHost, _ *testConn) { h.cfg.LogsAll = true }, bad, nil, nil, nil, h1.ErrHostMissing},
		"of the engine":         {nil, get, nil, errBroken, nil, errBroken},
		"a write":               {func(_ *testHost, c *testConn) { c.isBroken = true }, "G", flush, nil, errBroken, nil},
		"a write, logged":       {func(h *testHost, c *testConn) { c.isBroken, h.cfg.LogsAll = true, true }, "G", flush, nil, errBroken, errBroken},
		"the rest of a body":    {func(h *testHost, _ *testConn) { h.streams, h.unreadErr = true, errBroken }, post, nil, nil, errBroken, nil},
	} {
		h, c, p := open()
		if test.set != nil {
			test.set(h, c)
		}
		c.feed(p, test.in)
		if test.do != nil {
			test.do(p)
		}
		p.Closed(test.closed)
		for _, told := range []struct {
			got  []error
			want error
		}{{h.failed, test.failed}, {h.logged, test.logged}} {
			if isOne := len(told.got) == 1 && errors.Is(told.got[0], told.want); !isOne && (told.want != nil || len(told.got) > 0) {
				t.Errorf("%s: %v, want %v", name, told.got, told.want)
			}
		}
	}
}

// TestLargePartsAreNotCopied: up to 4 KiB of a content, whatever delimits it, go with the rest.
func TestLargePartsAreNotCopied(t *testing.T) {
	for _, length := range []int64{-1, 1 << 20} {
		for size, vectors := range map[int]int{4 << 10: 0, 4<<10 + 1: 1} {
			_, c, p := open()
			p.prepareExchange()
			form := message.ResponseForm{Length: length, HasContent: true}
			p.x.parser.Minor = 1
			if isSent := p.x.SendHead(&form, make([]byte, size), false); !isSent || c.vectors != vectors {
				t.Errorf("%d bytes of a head with length %d: %v, %d writes", size, length, isSent, c.vectors)
			}
			if isSent := p.x.SendData(make([]byte, size), false); !isSent || c.vectors != 2*vectors {
				t.Errorf("%d bytes of length %d: %v, %d writes", size, length, isSent, c.vectors)
			}
			if sent := len(c.sent) + len(p.x.out); vectors > 0 && len(p.x.out) > 2 || sent < 2*size {
				t.Errorf("%d bytes of length %d: %d are sent, %q waits", size, length, sent, p.x.out)
			}
			p.Closed(nil)
		}
	}
}

// An interrupted host is the engine's side of a BlockingConn.
type interrupted struct {
	engine.BlockingHost
	reads, writes int
}

func (i *interrupted) LocalAddr() net.Addr         { return nil }
func (i *interrupted) RemoteAddr() net.Addr        { return nil }
func (i *interrupted) Write(p []byte) (int, error) { return len(p), nil }

func (i *interrupted) InterruptRead(time.Time)  { i.reads++ }
func (i *interrupted) InterruptWrite(time.Time) { i.writes++ }

// TestInterrupt: after Arm, reads and writes can be ended, each without the other. Before it,
// nothing is there to end.
func TestInterrupt(t *testing.T) {
	for _, isArmed := range []bool{false, true} {
		_, c, p := open()
		host := &interrupted{}
		b := engine.NewBlockingConn(host, nil)
		c.blocking = b
		p.begin()
		want := 0
		if isArmed {
			p.x.Arm()
			c.blocking = nil // the first one stays
			p.x.Arm()
			want = 1
		}
		if p.x.InterruptWrite(); host.writes != want || host.reads != 0 || b.WriteIsOverridden() != isArmed || p.x.sequel != sequelRequest {
			t.Errorf("armed %v: %+v after the writes, sequel %v", isArmed, host, p.x.sequel)
		}
		if p.x.InterruptRead(); host.reads != want || host.writes != want || b.IsClosed() != isArmed || p.x.sequel != sequelClose {
			t.Errorf("armed %v: %+v after the reads, sequel %v", isArmed, host, p.x.sequel)
		}
		p.Closed(nil)
	}
}

// TestOnPeerGone: the engine gets the function.
func TestOnPeerGone(t *testing.T) {
	_, c, p := open()
	p.prepareExchange()
	isTold := false
	p.x.OnPeerGone(func() { isTold = true })
	if c.onGone(); !isTold {
		t.Error("it is not called")
	}
	p.Closed(nil)
}

// TestTrailerMemory: a table that has grown larger than most is not kept.
func TestTrailerMemory(t *testing.T) {
	for size, isKept := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		var x Exchange
		x.trailer.Append(make([]byte, size))
		if size == 64<<10 && x.trailer.HeldBytes() < size {
			t.Fatalf("%d bytes", x.trailer.HeldBytes())
		}
		x.trailer.Reset()
		if x.shrink(); (x.trailer.HeldBytes() >= size) != isKept {
			t.Errorf("%d bytes: %d are kept", size, x.trailer.HeldBytes())
		}
	}
}

// TestHeadEndsWritesOfTheHandler, which would be in the middle of the response. A hijack handler
// keeps the connection.
func TestHeadEndsWritesOfTheHandler(t *testing.T) {
	for use, isAllowed := range map[message.Use]bool{message.UseRequest: false, message.UseNone: false, message.UseHijack: true} {
		_, c, p := open()
		b := engine.NewBlockingConn(&interrupted{}, nil)
		c.blocking = b
		p.begin()
		p.x.Arm()
		if _, err := b.Write([]byte("x")); err != nil {
			t.Errorf("before the head: %v", err)
		}
		p.x.SendHead(&message.ResponseForm{Next: use}, nil, true)
		if _, err := b.Write([]byte("x")); (err == nil) != isAllowed {
			t.Errorf("after a head with %v: %v", use, err)
		}
		p.Closed(nil)
	}
}

// TestRest: an exchange stays with its Conn, with little memory, until Cool, also when the
// connection has ended, unless it has held memory while it waited, or another server may have
// the Config's place.
func TestRest(t *testing.T) {
	for name, test := range map[string]struct {
		set    func(h *testHost, p *Conn)
		pieces []string
		stays  bool
	}{
		"long":           {nil, []string{"GET /" + strings.Repeat("x", largeHead) + get[len("GET /"):]}, true},
		"many":           {nil, slices.Repeat([]string{get}, shrinkEvery), true},
		"in pieces":      {nil, []string{get[:5], get[5:]}, false},
		"of one of many": {func(h *testHost, _ *Conn) { h.cfg.IsSingle = true }, []string{get}, false},
	} {
		h, c, p := open()
		if test.set != nil {
			test.set(h, p)
		}
		var x *Exchange
		for _, in := range test.pieces {
			c.feed(p, in)
			x = p.x
			p.Pause()
		}
		if stays := p.x != nil; stays != test.stays || h.shrunk > 0 != stays || h.acquired > 0 != stays {
			t.Errorf("%s: stays %v, shrunk %d times, %d exchanges", name, stays, h.shrunk, h.acquired)
		}
		kept := h.acquired
		if p.Closed(nil); h.acquired != kept || p.x != nil != test.stays {
			t.Errorf("%s: %d exchanges after the end, before %d", name, h.acquired, kept)
		}
		p.phase = readHead
		if p.Cool(); h.acquired != kept {
			t.Errorf("%s: Cool has released the exchange of a request", name)
		}
		p.phase = readIdle
		if p.Cool(); h.acquired != 0 || x.conn != nil || x.hasWaited {
			t.Errorf("%s: %d exchanges after Cool, with %v, waited %v", name, h.acquired, x.conn, x.hasWaited)
		}
	}
}

// TestExchangeOfAnotherServer: a connection does not use one that it had at another server.
func TestExchangeOfAnotherServer(t *testing.T) {
	other, _, before := open()
	before.prepareExchange()
	h, c, p := open()
	p.x = before.x
	if c.feed(p, get); other.acquired != 0 || h.acquired != 1 || p.x.cfg != &h.cfg {
		t.Errorf("%d exchanges of the other server, %d of this one", other.acquired, h.acquired)
	}
	p.Closed(nil)
}

// TestSwitchesToHTTP2: by prior knowledge, with the first request of a connection without TLS.
// The protocol gets all of the input, in whichever pieces that comes.
func TestSwitchesToHTTP2(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	next := &nextProtocol{}
	for name, test := range map[string]struct {
		set      func(h *testHost, p *Conn)
		in       string
		switches bool
	}{
		"the preface":            {nil, preface, true},
		"another protocol":       {nil, "HELO me 1\r\n", true},
		"an unknown method":      {nil, "HELO /me HTTP/3\r\n", false},
		"a usual method":         {nil, "GET / FTP/1\r\n", false},
		"the PROXY protocol":     {nil, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", false},
		"a malformed request":    {nil, "GET  / HTTP/1.1\r\n", false},
		"the server has no such": {func(h *testHost, _ *Conn) { h.http2 = nil }, preface, false},
		"over TLS":               {func(_ *testHost, p *Conn) { p.facts.IsTLS = true }, preface, false},
		"the second request":     {func(_ *testHost, p *Conn) { p.facts.Served = 1 }, preface, false},
	} {
		for _, size := range []int{1, 5, len(test.in)} {
			h, c, p := open()
			h.http2 = next
			if test.set != nil {
				test.set(h, p)
			}
			left, got := test.in, engine.Read
			for left != "" && got == engine.Read {
				piece := left[:min(size, len(left))]
				got = c.feed(p, piece)
				left = left[len(piece):]
			}
			isKnown := size == len(test.in) || test.in == preface // a part of another line may be of HTTP/1.1
			if got == engine.Switch != (test.switches && isKnown) {
				t.Errorf("%s in pieces of %d: %v", name, size, got)
			}
			if all := h.begun + string(c.unread) + left; got == engine.Switch && (all != test.in || p.Successor() != next || h.acquired != 0) {
				t.Errorf("%s in pieces of %d: it gets %q, %d exchanges are left", name, size, all, h.acquired)
			}
			if got != engine.Switch {
				p.Closed(nil)
			}
		}
	}
}

// TestMoreOfAChunk: the Request learns how much of a chunk must follow, when its size is known.
func TestMoreOfAChunk(t *testing.T) {
	h, c, p := open()
	c.feed(p, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, step := range []struct {
		in   string
		more uint64
	}{{"1", 0}, {"2", 0}, {"\r\n", 0x12}, {"abc", 0x12 - 3}, {"defghijklmnopqr", 0}, {"\r\n", 0}} {
		if c.feed(p, step.in); h.more != step.more {
			t.Errorf("after %q: %d, want %d", step.in, h.more, step.more)
		}
	}
	p.Closed(nil)
}

// TestNothingAfterTheEnd: a connection that has ended takes no input, and its last request has
// ended before the engine has closed it.
func TestNothingAfterTheEnd(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\n"
	timeOut := func(p *Conn) engine.Next {
		_, next := p.TimedOut(nil)
		return next
	}
	halfClose := func(p *Conn) engine.Next {
		p.HalfClosed(nil)
		return engine.Close
	}
	for name, test := range map[string]struct {
		set  func(h *testHost)
		in   string
		do   func(p *Conn) engine.Next
		next engine.Next
	}{
		"a time-out before a request":    {nil, "", timeOut, engine.CloseLinger},
		"one of a head":                  {nil, "G", timeOut, engine.CloseLinger},
		"one of empty lines":             {nil, "\r\n", timeOut, engine.CloseLinger},
		"one of the rest of a body":      {unread, post + "Content-Length: 9\r\n\r\n", timeOut, engine.CloseLinger},
		"a FIN before a request":         {nil, "", halfClose, engine.Close},
		"one after it":                   {nil, get, halfClose, engine.Close},
		"one in a head":                  {nil, "G", halfClose, engine.Close},
		"one in the rest of a body":      {unread, post + "Content-Length: 9\r\n\r\n", halfClose, engine.Close},
		"the last response":              {nil, post + "Connection: close\r\n\r\n", nil, engine.CloseQuiet},
		"a refused request":              {nil, "GET / HTTP/1.1\r\n\r\n", nil, engine.CloseLinger},
		"no response":                    {func(h *testHost) { h.outcome = server.OutcomeAbort }, get, nil, engine.Abort},
		"a body that is too long":        {unread, post + "Content-Length: 9999999\r\n\r\n", nil, engine.CloseLinger},
		"a hijack with such":             {func(h *testHost) { unread(h); h.outcome = server.OutcomeHijack }, post + "Content-Length: 9999999\r\n\r\n", nil, engine.CloseLinger},
		"a body whose rest is malformed": {unread, post + "Transfer-Encoding: chunked\r\n\r\nx", nil, engine.CloseLinger},
		"a protocol that is not there":   {func(h *testHost) { h.outcome = server.OutcomeTakeover }, get, nil, engine.Close},
		"the handler's Close": {func(h *testHost) {
			h.serve = func() (server.Request, server.Outcome) { return nil, closed(h.x.UserConn()) }
		}, get, nil, engine.Close},
	} {
		h, c, p := open()
		c.blocking = engine.NewBlockingConn(&interrupted{}, nil)
		if test.set != nil {
			test.set(h)
		}
		next := c.feed(p, test.in)
		if test.do != nil {
			next = test.do(p)
		}
		served := p.facts.Served
		if next != test.next || h.ended < int(served) {
			t.Errorf("%s: %v, %d of %d requests have ended", name, next, h.ended, served)
		}
		if used, next := p.Feed([]byte(get)); used != 0 || next != engine.Close || p.facts.Served != served {
			t.Errorf("%s: it takes %d bytes more, then %v", name, used, next)
		}
		p.Closed(nil)
	}
}

// closed closes the handler's connection.
func closed(c net.Conn) server.Outcome {
	c.Close()
	return server.OutcomeResponse
}

// TestHandlerWithoutItsRequest: a response in place of a handler that goes on. The connection ends
// where it may read the body or has had the connection, without a response where it has written.
func TestHandlerWithoutItsRequest(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"
	for name, test := range map[string]struct {
		in                    string
		streams, uses, writes bool
		next                  engine.Next
	}{
		"it has nothing":          {get, false, false, false, engine.Read},
		"it has the whole body":   {post + "x", false, false, false, engine.Read},
		"it reads the body":       {post, true, false, false, engine.CloseLinger},
		"it has the connection":   {get, false, true, false, engine.Close},
		"it has both":             {post, true, true, false, engine.CloseLinger},
		"it has written":          {get, false, true, true, engine.Abort},
		"it has written and read": {post, true, true, true, engine.Abort},
	} {
		h, c, p := open()
		b := engine.NewBlockingConn(&interrupted{}, nil)
		c.blocking, h.streams = b, test.streams
		fresh := &testHost{body: []byte("late")}
		h.serve = func() (server.Request, server.Outcome) {
			if test.uses {
				conn := h.x.UserConn()
				if test.writes {
					_, _ = conn.Write([]byte("x"))
				}
			}
			fresh.x = h.x
			return fresh, server.OutcomeResponse
		}
		next := c.feed(p, test.in)
		isSent, saysClose := bytes.HasSuffix(c.sent, []byte("\r\n\r\nlate")), bytes.Contains(c.sent, []byte("\r\nConnection: close\r\n"))
		if next != test.next || isSent == test.writes || saysClose != (isSent && next != engine.Read) || b.IsClosed() != test.uses {
			t.Errorf("%s: %v, %q, the handler's connection is closed: %v", name, next, c.sent, b.IsClosed())
		}
		p.Closed(nil)
	}
}

// TestDetached: a hijack handler may run for ever, so that it keeps no exchange. If it panics, the
// connection ends.
func TestDetached(t *testing.T) {
	for _, panics := range []bool{false, true} {
		h, c, p := open()
		h.cfg.TellsStates, h.outcome, h.panics = true, server.OutcomeHijack, panics
		c.feed(p, get)
		conn := engine.NewBlockingConn(&interrupted{}, nil)
		p.Detached(conn)
		if h.held != 0 || h.hijacked != 1 || conn.IsClosed() != panics {
			t.Errorf("panics %v: %d exchanges, %d connections, closed %v", panics, h.held, h.hijacked, conn.IsClosed())
		}
		p.Closed(nil)
		if n := h.cfg.Hijacked.Load(); n != 0 || !slices.Equal(h.states, []State{StateActive, StateHijacked}) {
			t.Errorf("panics %v: %d connections after the end, states %v", panics, n, h.states)
		}
	}
}

// TestCapabilities name what a Conn implements.
func TestCapabilities(t *testing.T) {
	_, _, p := open()
	var protocol engine.Protocol = p
	_, switches := protocol.(engine.Switcher)
	_, rewinds := protocol.(engine.Rewinder)
	_, sleeps := protocol.(engine.Sleeper)
	_, cools := protocol.(engine.Cooler)
	_, reuses := protocol.(engine.Reusable)
	const all = engine.CanSwitch | engine.CanRewind | engine.CanSleep | engine.CanCool | engine.CanReuse
	for what, is := range map[engine.Capabilities]bool{engine.CanSwitch: switches, engine.CanRewind: rewinds, engine.CanSleep: sleeps, engine.CanCool: cools, engine.CanReuse: reuses, ^all: false} {
		if p.Capabilities().Has(what) != is {
			t.Errorf("%b of %b", what, p.Capabilities())
		}
	}
	p.Closed(nil)
}

// TestConnectionsDoNotAllocate: they use the memory of those before, however those have ended.
func TestConnectionsDoNotAllocate(t *testing.T) {
	for name, end := range map[string]func(p *Conn){
		"closed":    func(p *Conn) { p.Closed(nil) },
		"asleep":    func(p *Conn) { p.Pause(); p.Sleep() },
		"succeeded": func(p *Conn) { p.Successor() },
	} {
		h, c, p := open()
		end(p)
		in, out := []byte(get), []byte(nil)
		serve := func() {
			p := Open(c, h, &h.cfg, server.Facts{})
			p.Feed(in)
			out, _ = p.Run(out[:0])
			end(p)
		}
		serve()
		if n := testing.AllocsPerRun(100, serve); n != 0 && !invariants.Enabled { // the race detector makes pools forget
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
