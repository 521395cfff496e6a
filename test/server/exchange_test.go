package server_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A valueExchange is a server.Exchange, and its protocol, that carries
// values: its requests are fields and pieces of a body, its responses a log of
// what was sent. It is what a protocol outside root has to do at the least.
type valueExchange struct {
	request  server.Request
	header   *message.RequestHeader
	response *message.ResponseHeader
	form     *message.ResponseForm
	facts    server.Facts
	body     chan string // pieces of the request's body; closed at its end

	mu     sync.Mutex
	log    []string      // of the response
	stuck  chan struct{} // flush says here that it is stuck; nil: it is not
	isGone bool
	gone   func()

	readBroken, writeBroken chan struct{}
}

// A valueRequest is a request as another protocol would have decoded it.
type valueRequest struct {
	method, target string
	fields         map[string]string
	body           []string
	isUnfinished   bool // the end of the body does not come
	expects        bool // the client waits for 100-continue
}

func newValueExchange(s *sluice.Server) *valueExchange {
	x := &valueExchange{facts: server.Facts{ID: 7, Opened: 1, Served: 1}, body: make(chan string, 16), readBroken: make(chan struct{}), writeBroken: make(chan struct{})}
	x.use(s.Control().Value(server.Key{}).(server.Host).NewRequest(x, nil))
	return x
}

// use makes r the Request of x, unless it is nil.
func (x *valueExchange) use(r server.Request) {
	if r != nil {
		x.request = r
		x.header, x.response = r.Headers()
	}
}

// serve runs one request, as the protocol does, and returns the log.
func (x *valueExchange) serve(r valueRequest) string {
	start := clock.Nanos()
	x.request.Begin(&x.facts, start)
	x.decode(r)
	isWanted, err := x.receive(r)
	switch {
	case err != nil:
		x.request.Refuse(err, err)
		fallthrough
	case !isWanted:
		return x.finish(x.request.Respond())
	}
	fresh, outcome := x.request.Serve(start)
	x.use(fresh)
	if outcome == server.OutcomeHijack { // no connection to take over
		x.request.Decline(sluice.StatusNotImplemented)
	}
	return x.finish(outcome != server.OutcomeAbort && x.request.Respond())
}

// decode makes r the head.
func (x *valueExchange) decode(r valueRequest) {
	head := r.method + " " + r.target + " HTTP/1.1\r\nHost: h\r\n"
	for name, value := range r.fields {
		head += name + ": " + value + "\r\n"
	}
	parser := h1.HeadParser{Limits: h1.DefaultLimits, Opening: new(h1.Opening)}
	parser.Reset()
	if _, done, err := parser.Parse(&x.header.Table, []byte(head+"\r\n")); !done || err != nil {
		panic(err)
	}
	x.header.SetParsed(&parser.Head)
}

// receive takes the request's body, or lets the handler read it.
func (x *valueExchange) receive(r valueRequest) (isWanted bool, err error) {
	if err := x.request.HeadComplete(false, false); err != nil {
		return false, err
	}
	if err := x.request.HeaderReceived(); err != nil {
		return false, err
	}
	if len(r.body) == 0 && !r.isUnfinished {
		return true, nil
	}
	isStreamed, err := x.request.ExpectBody(-1)
	if err != nil {
		return false, err
	}
	if r.expects {
		if isWanted, err := x.request.ExpectContinue(true); err != nil || !isWanted {
			return false, err
		}
	}
	for _, piece := range r.body {
		if isStreamed {
			x.body <- piece
		} else if err := x.request.BodyReceived([]byte(piece), 0); err != nil {
			return false, err
		}
	}
	if !r.isUnfinished {
		close(x.body)
	}
	return true, nil
}

// finish ends the request.
func (x *valueExchange) finish(isComplete bool) string {
	if !isComplete {
		x.note("reset")
	}
	x.use(x.request.End())
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.log, "; ")
}

// note logs something that is sent. It reports whether the client is there.
func (x *valueExchange) note(format string, args ...any) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.log = append(x.log, fmt.Sprintf(format, args...))
	return !x.isGone
}

func (x *valueExchange) SendInterim(h *message.ResponseHeader) bool {
	if h == nil {
		return x.note("100")
	}
	return x.note("%d%s", h.Status(), strings.Join(append([]string{""}, texts(h.AppendAny(nil, "Link"))...), " "))
}

func texts(all [][]byte) (out []string) {
	for _, b := range all {
		out = append(out, string(b))
	}
	return out
}

// SendHead logs the status, the length, and the fields that tests look at.
func (x *valueExchange) SendHead(f *message.ResponseForm, p []byte, isLast bool) bool {
	x.form = f
	fields := map[string]string{}
	for _, name := range []string{sluice.HeaderContentEncoding, sluice.HeaderLocation, sluice.HeaderVary, "X-Test"} {
		if value := x.response.Peek([]byte(name)); len(value) > 0 {
			fields[name] = string(value)
		}
	}
	head := fmt.Sprintf("%d length %d", x.response.Status(), f.Length)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		head += " " + name + "=" + fields[name]
	}
	return x.note("%s", head) && x.SendData(p, isLast)
}

func (x *valueExchange) SendData(p []byte, isLast bool) bool {
	ok := true
	if string(x.response.ContentEncoding()) == "gzip" {
		plain, _ := sluice.AppendGunzipBytes(nil, p)
		ok = x.note("%q of %d", plain[:min(10, len(plain))], len(plain))
	} else if len(p) > 0 {
		ok = x.note("%q", p)
	}
	if isLast {
		if x.form.HasTrailers {
			for line := range strings.Lines(strings.TrimSpace(string(x.response.AppendTrailers(nil)))) {
				x.note("%s", strings.TrimSpace(strings.Replace(line, ": ", "=", 1)))
			}
		}
		ok = x.note("end")
	}
	return ok
}

func (x *valueExchange) SendFile(part engine.File) error {
	content, err := io.ReadAll(io.NewSectionReader(part.Source, part.Offset, part.Size))
	if err = cmp.Or(err, part.Done.Close()); err != nil {
		return err
	}
	x.note("file of %d", len(content))
	if !x.note("end") {
		return sluice.ErrConnectionClosed
	}
	return nil
}

func (x *valueExchange) Flush() bool {
	if x.stuck != nil {
		x.stuck <- struct{}{}
		<-x.writeBroken
		return false
	}
	return x.note("flush")
}

func (x *valueExchange) ReadBody(p []byte) (int, error) {
	if err := x.request.MayWait(); err != nil {
		return 0, err
	}
	select {
	case piece, ok := <-x.body:
		if !ok {
			return 0, io.EOF
		}
		return copy(p, piece), nil
	case <-x.readBroken:
		return 0, os.ErrDeadlineExceeded
	}
}

func (x *valueExchange) HasTarget() bool { return false }
func (x *valueExchange) Arm()            {}
func (x *valueExchange) InterruptRead()  { close(x.readBroken) }
func (x *valueExchange) InterruptWrite() { close(x.writeBroken) }

func (x *valueExchange) OnPeerGone(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone = f
}

// leave is the client that goes away.
func (x *valueExchange) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.isGone = true
	if x.gone != nil {
		x.gone()
	}
}

func (x *valueExchange) SetReadDeadline(int64, time.Duration) {}
func (x *valueExchange) SetWriteTimeout(time.Duration)        {}

func (x *valueExchange) LocalAddr() net.Addr  { return valueConn{}.LocalAddr() }
func (x *valueExchange) RemoteAddr() net.Addr { return valueConn{}.RemoteAddr() }
func (x *valueExchange) NetConn() net.Conn    { return valueConn{} }
func (x *valueExchange) UserConn() net.Conn {
	return engine.AddressOnly{Conn: valueConn{}, Err: net.ErrClosed}
}

var _ server.Exchange = (*valueExchange)(nil)

// valueConn is a connection that has addresses only.
type valueConn struct{ net.Conn }

func (valueConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (valueConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: 40000} }

func getOf(target string) valueRequest { return valueRequest{method: sluice.MethodGet, target: target} }

// TestExchangeOfValues: handlers do not depend on the protocol, which may be of another module.
func TestExchangeOfValues(t *testing.T) {
	large := t.TempDir() + "/large.txt"
	if err := os.WriteFile(large, []byte(strings.Repeat("x", 300<<10)), 0o600); err != nil {
		t.Fatal(err)
	}
	post := valueRequest{method: sluice.MethodPost, target: "/", body: []string{"one", "two"}}
	head := valueRequest{method: sluice.MethodHead, target: "/"}
	gzip := valueRequest{method: sluice.MethodGet, target: "/", fields: map[string]string{sluice.HeaderAcceptEncoding: "gzip"}}
	hello := func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }
	for _, test := range []struct {
		name    string
		handler sluice.RequestHandler
		request valueRequest
		want    string
	}{
		{"plain", hello, getOf("/"), `200 length 5; "hello"; end`},
		{"HEAD", hello, head, `200 length 5; end`},
		{"304", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("x"); ctx.NotModified() }, getOf("/"), `304 length -2; end`},
		{"204 with a body", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(204); ctx.SetBodyString("x") }, getOf("/"), `204 length -2; end`},
		{"redirect", func(ctx *sluice.RequestCtx) { ctx.Redirect("/b", 301) }, getOf("/a"), `301 length 0 Location=http://h/b; end`},
		{"buffered body", func(ctx *sluice.RequestCtx) { ctx.Write(ctx.PostBody()) }, post, `200 length 6; "onetwo"; end`},
		{"GetOnly", nil, post, `405 length 57; "a method other than GET was used where only GET is served"; end`},
		{"panic", func(*sluice.RequestCtx) { panic("x") }, getOf("/"), `500 length 21; "Internal Server Error"; end`},
		{"abort", func(*sluice.RequestCtx) { panic(sluice.ErrAbortHandler) }, getOf("/"), `reset`},
		{"interim status", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(102) }, getOf("/"), `500 length 21; "Internal Server Error"; end`},
		{"hijack", func(ctx *sluice.RequestCtx) { ctx.Hijack(func(net.Conn) {}) }, getOf("/"), `501 length 15; "Not Implemented"; end`},
		{"TimeoutError", func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") }, getOf("/"), `408 length 4; "late"; end`},
		{"trailers", func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.AddTrailer("X-Sum")
			hello(ctx)
			ctx.Response.Header.Set("X-Sum", "1")
		}, getOf("/"), `200 length 5; "hello"; X-Sum=1; end`},
		{"early hints", func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.Add(sluice.HeaderLink, "</a>")
			_ = ctx.EarlyHints()
			hello(ctx)
		}, getOf("/"), `103 </a>; 200 length 5; "hello"; end`},
		{"Flush", func(ctx *sluice.RequestCtx) {
			ctx.WriteString("a")
			_ = ctx.Flush()
			ctx.WriteString("b")
		}, getOf("/"), `200 length -1; "a"; flush; flush; "b"; end`},
		{"Flush to HEAD", func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); hello(ctx) }, head, `200 length -1; end; flush`},
		{"Flush of too little", func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetContentLength(3)
			_ = ctx.Flush()
			ctx.WriteString("b")
		}, getOf("/"), `200 length 3; flush; "b"; flush; reset`},
		{"panic after Flush", func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); panic("x") }, getOf("/"), `200 length -1; flush; reset`},
		{"stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(struct{ io.Reader }{strings.NewReader("abc")}, 3) }, getOf("/"),
			`200 length 3; "abc"; flush; end`},
		{"stream to HEAD", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("abc"), 3) }, head, `200 length 3; end`},
		{"short stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("ab"), 3) }, getOf("/"), `200 length 3; "ab"; flush; reset`},
		{"stream writer", func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("a"); w.Flush(); w.WriteString("b") })
		}, getOf("/"), `200 length -1; "a"; flush; "b"; flush; end`},
		{"file", func(ctx *sluice.RequestCtx) { ctx.SendFile(large) }, getOf("/"), `200 length 307200 Vary=Accept-Encoding; file of 307200; end`},
		{"compressed", sluice.CompressHandler(func(ctx *sluice.RequestCtx) { ctx.SetBodyString(strings.Repeat("a", 1000)) }), gzip,
			`200 length 29 Content-Encoding=gzip Vary=Accept-Encoding; "aaaaaaaaaa" of 1000; end`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := quietServer(test.handler)
			s.GetOnly = test.handler == nil
			if got := newValueExchange(s).serve(test.request); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// TestExchangeOfStreamedBody: the handler reads the body while it arrives, and
// the client is asked for it when it waits for that.
func TestExchangeOfVersions(t *testing.T) {
	s := quietServer(func(ctx *sluice.RequestCtx) {
		fmt.Fprint(ctx, ctx.ProtoMajor(), ctx.StreamID(), ctx.IsEarly())
	})
	for _, c := range []struct {
		facts server.Facts
		want  string
	}{
		{server.Facts{}, `200 length 9; "1 0 false"; end`},
		{server.Facts{Version: 2, Stream: 7}, `200 length 9; "2 7 false"; end`},
		{server.Facts{Version: 3, IsTLS: true, IsEarly: true}, `200 length 8; "3 0 true"; end`},
		{server.Facts{Version: 3, IsTLS: true, Stream: 1<<62 - 4}, `200 length 27; "3 4611686018427387900 false"; end`},
	} {
		x := newValueExchange(s)
		x.facts = c.facts
		if got := x.serve(getOf("/")); got != c.want {
			t.Errorf("%+v: %s, want %s", c.facts, got, c.want)
		}
	}
}

func TestExchangeOfStreamedBody(t *testing.T) {
	echo := func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(struct{ io.Reader }{ctx.RequestBodyStream()}, -1) }
	read := func(ctx *sluice.RequestCtx) {
		got, err := io.ReadAll(ctx.RequestBodyStream())
		fmt.Fprintf(ctx, "%s %v", got, err)
	}
	post := valueRequest{method: sluice.MethodPost, target: "/", body: []string{"one", "two"}}
	waiting := post
	waiting.expects = true
	for _, test := range []struct {
		name    string
		handler sluice.RequestHandler
		request valueRequest
		want    string
	}{
		{"read", read, post, `200 length 12; "onetwo <nil>"; end`},
		{"read after 100-continue", read, waiting, `100; 200 length 12; "onetwo <nil>"; end`},
		{"echo", echo, post, `200 length -1; "one"; flush; "two"; flush; end`},
		{"echo after 100-continue", echo, waiting, `100; 200 length -1; "one"; flush; "two"; flush; end`},
		{"not read", func(*sluice.RequestCtx) {}, waiting, `200 length 0; end`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := quietServer(test.handler)
			s.StreamRequestBody = true
			if got := newValueExchange(s).serve(test.request); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// TestExchangeBodyLimits: limits and callbacks are the server's, not the
// protocol's.
func TestExchangeBodyLimits(t *testing.T) {
	post := valueRequest{method: sluice.MethodPost, target: "/", body: []string{"one", "two"}}
	const tooLarge, noMemory = 413, 503
	for name, test := range map[string]struct {
		set  func(s *sluice.Server)
		want int
	}{
		"size":   {func(s *sluice.Server) { s.MaxRequestBodySize = 5 }, tooLarge},
		"memory": {func(s *sluice.Server) { s.MaxBodyMemory = 5 }, noMemory},
		"HeaderReceived": {func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { return sluice.RequestConfig{MaxRequestBodySize: 5} }
		}, tooLarge},
		"panic": {func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { panic("x") }
		}, 500},
		"none": {func(s *sluice.Server) { s.MaxRequestBodySize, s.MaxBodyMemory = 6, 6 }, 200},
	} {
		s := quietServer(func(*sluice.RequestCtx) {})
		test.set(s)
		if got := newValueExchange(s).serve(post); !strings.HasPrefix(got, fmt.Sprint(test.want, " ")) {
			t.Errorf("%s: %s, want %d", name, got, test.want)
		}
		small := post // what was refused is not counted any more
		small.body = []string{"12345"}
		if got := newValueExchange(s).serve(small); test.want != 500 && !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s: %s after it", name, got)
		}
	}
}

// TestExchangeTimesOut: whatever the handler waits for, the client gets its
// answer, or the end of what has begun.
func TestExchangeTimesOut(t *testing.T) {
	for name, test := range map[string]struct {
		wait func(ctx *sluice.RequestCtx) error
		want string
	}{
		"handler": {func(ctx *sluice.RequestCtx) error { <-ctx.Done(); return ctx.Err() }, `408 length 4; "late"; end`},
		"body": {func(ctx *sluice.RequestCtx) error {
			_, err := ctx.RequestBodyStream().Read(make([]byte, 1))
			return err
		}, `408 length 4; "late"; end`},
		"write": {func(ctx *sluice.RequestCtx) error {
			ctx.WriteString("a")
			return ctx.Flush()
		}, `200 length -1; "a"; reset`},
	} {
		t.Run(name, func(t *testing.T) {
			ended, blocked := make(chan error), make(chan struct{}, 1)
			var kept *sluice.RequestCtx
			s := quietServer(func(ctx *sluice.RequestCtx) {
				kept = ctx
				go func() { ended <- test.wait(ctx) }()
				if name == "write" {
					<-blocked
				}
				ctx.TimeoutError("late")
			})
			s.StreamRequestBody = true
			x := newValueExchange(s)
			x.stuck = blocked
			if got := x.serve(valueRequest{method: sluice.MethodPost, target: "/", isUnfinished: true}); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if err := <-ended; err == nil {
				t.Error("what waited has not failed")
			}
			if kept.Flush() != sluice.ErrNilConnection || kept.Err() == nil || kept.ConnID() != 7 || kept.RemoteAddr().String() != "127.0.0.2:40000" {
				t.Errorf("the ctx still has its exchange: %v, %v", kept.Flush(), kept.Err())
			}
		})
	}
}

// TestExchangePeerGone: the handler learns that the client is away, and nothing
// is taken for sent.
func TestExchangePeerGone(t *testing.T) {
	begun := make(chan bool)
	x := newValueExchange(quietServer(func(ctx *sluice.RequestCtx) {
		done := ctx.Done()
		close(begun)
		<-done
		if ctx.Flush() != sluice.ErrConnectionClosed {
			t.Error("Flush to a client that is away")
		}
	}))
	go func() { <-begun; x.leave() }()
	if got := x.serve(getOf("/")); !strings.HasSuffix(got, "reset") {
		t.Error(got)
	}
}

// TestSeveralExchangesAtOnce: the handlers of one connection run beside each
// other.
func TestSeveralExchangesAtOnce(t *testing.T) {
	const n = 20
	var together, served sync.WaitGroup
	together.Add(n)
	s := quietServer(func(ctx *sluice.RequestCtx) {
		together.Done()
		together.Wait()
		ctx.Write(ctx.Path())
	})
	for i := range n {
		served.Go(func() {
			if got, want := newValueExchange(s).serve(getOf(fmt.Sprint("/", 10+i))), fmt.Sprintf(`200 length 3; "/%d"; end`, 10+i); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	served.Wait()
}

// TestExchangeConditional: an unchanged file is not sent again.
func TestExchangeConditional(t *testing.T) {
	x := newValueExchange(quietServer(func(ctx *sluice.RequestCtx) { ctx.SendFile("exchange_test.go") }))
	r := getOf("/")
	r.fields = map[string]string{sluice.HeaderIfModifiedSince: "Fri, 31 Dec 2100 00:00:00 GMT"}
	if got := x.serve(r); !strings.HasPrefix(got, "304 ") || strings.Contains(got, "file") {
		t.Error(got)
	}
}
