package http1_test

import (
	"errors"
	"io"
	stdlog "log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// withoutClient is a connection whose client cannot be reached any more.
type withoutClient struct{ *http1test.Conn }

var errNoClient = errors.New("the conn of the test is broken")

func (withoutClient) Write([]byte) (int, error)                { return 0, errNoClient }
func (withoutClient) WriteBuffers(*net.Buffers) (int64, error) { return 0, errNoClient }

// TestContinue: a body is asked for if the client waits for that, once, and before the
// response only.
func TestContinue(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
	const asks = "HTTP/1.1 100 Continue\r\n\r\n"
	read := func(ctx *sluice.RequestCtx) { ctx.PostBody() }
	refuse := func(status int) func(s *sluice.Server) {
		return func(s *sluice.Server) { s.ExpectHandler = func(*sluice.RequestCtx) int { return status } }
	}
	streams := func(s *sluice.Server) { s.StreamRequestBody = true }
	for name, test := range map[string]struct {
		set     func(s *sluice.Server)
		handler sluice.RequestHandler
		pieces  []string
		asks    bool
		status  string
		last    engine.Next
	}{
		"it waits":               {nil, read, []string{head, "abc"}, true, "200", engine.Read},
		"the body came along":    {nil, read, []string{head + "abc"}, false, "200", engine.Read},
		"its beginning did":      {nil, read, []string{head + "a", "bc"}, false, "200", engine.Read},
		"refused":                {refuse(503), read, []string{head}, false, "503", engine.CloseLinger},
		"allowed":                {refuse(100), read, []string{head, "abc"}, true, "200", engine.Read},
		"a callback panics":      {func(s *sluice.Server) { s.ContinueHandler = func(*sluice.RequestHeader) bool { panic("x") } }, read, []string{head}, false, "500", engine.CloseLinger},
		"too large":              {func(s *sluice.Server) { s.MaxRequestBodySize = 2 }, read, []string{head}, false, "413", engine.CloseLinger},
		"streamed":               {streams, read, []string{head, "abc"}, true, "200", engine.Read},
		"streamed and not read":  {streams, func(*sluice.RequestCtx) {}, []string{head}, false, "200", engine.CloseLinger},
		"streamed and echoed":    {streams, func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(ctx.RequestBodyStream(), 3) }, []string{head, "abc"}, true, "200", engine.Read},
		"streamed in chunks":     {streams, read, []string{strings.Replace(head, "Content-Length: 3", "Transfer-Encoding: chunked", 1), "1\r\na\r\n0\r\n\r\n"}, true, "200", engine.Read},
		"a file instead of that": {streams, func(ctx *sluice.RequestCtx) { ctx.SendFile("doc.go") }, []string{head}, false, "200", engine.CloseLinger},
	} {
		s := quietServer(test.handler)
		if test.set != nil {
			test.set(s)
		}
		c := &http1test.Conn{}
		p, last := c.Open(acceptorOf(s)), engine.Read
		for c.Pieces = bytesOf(test.pieces); len(c.Pieces) > 0 && last == engine.Read; {
			in := c.Pieces[0]
			c.Pieces = c.Pieces[1:]
			last = c.Feed(t, p, in)
		}
		p.Closed(nil)
		answer, hasAsked := strings.CutPrefix(string(c.Sent), asks)
		if last != test.last || hasAsked != test.asks || !strings.HasPrefix(answer, "HTTP/1.1 "+test.status) || strings.Contains(answer, asks) {
			t.Errorf("%s: %v after %q", name, last, c.Sent)
		}
	}
}

func bytesOf(texts []string) (all [][]byte) {
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

// TestContinueWithoutClient: a client that cannot be asked for the body gets no answer.
func TestContinueWithoutClient(t *testing.T) {
	s := quietServer(func(*sluice.RequestCtx) { t.Error("the handler is called") })
	s.ErrorHandler = func(*sluice.RequestCtx, error) { t.Error("ErrorHandler is called") }
	c := &http1test.Conn{}
	p, _ := acceptorOf(s).Open(withoutClient{c})
	if last := c.Feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")); last != engine.Abort || len(c.Sent) > 0 {
		t.Errorf("%v, %q", last, c.Sent)
	}
	p.Closed(nil)
}

// TestStreamWithoutClient: a handler that reads the body then does not wait for it.
func TestStreamWithoutClient(t *testing.T) {
	for _, framing := range []string{"Content-Length: 3", "Transfer-Encoding: chunked"} {
		var n int
		var err error
		s := quietServer(func(ctx *sluice.RequestCtx) { n, err = ctx.RequestBodyStream().Read(make([]byte, 9)) })
		s.StreamRequestBody = true
		c := &http1test.Conn{Pieces: bytesOf([]string{"abc"})}
		p, _ := acceptorOf(s).Open(withoutClient{c})
		c.Feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"+framing+"\r\n\r\n"))
		if n != 0 || err == nil || len(c.Pieces) != 1 {
			t.Errorf("%s: %d bytes, %v, %d pieces wait", framing, n, err, len(c.Pieces))
		}
		p.Closed(nil)
	}
}

// TestEarlyHints: they are sent before the response, at once.
func TestEarlyHints(t *testing.T) {
	c := &http1test.Conn{}
	s := quietServer(func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Add(sluice.HeaderLink, "</a>")
		ctx.Response.Header.Add(sluice.HeaderLink, "</b>")
		if err := ctx.EarlyHints(); err != nil || len(c.Sent) == 0 {
			t.Errorf("%v, %q", err, c.Sent)
		}
	})
	sent, _ := c.Converse(t, acceptorOf(s), []byte(simpleGet))
	if !strings.HasPrefix(sent, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\n") {
		t.Errorf("%q", sent)
	}
}

// TestSendFile: a small file goes with its head, and the engine gets a large one, after which
// nothing is written. One that is too short ends the connection.
func TestSendFile(t *testing.T) {
	for name, test := range map[string]struct {
		size, announced int
		isSent          bool
		last            engine.Next
	}{
		"small": {100, 100, true, engine.Read},
		"large": {100_000, 100_000, false, engine.Read},
		"short": {100, 101, true, engine.Abort},
		"empty": {0, 0, true, engine.Read},

		"the largest small one":  {16 << 10, 16 << 10, true, engine.Read},
		"the smallest large one": {16<<10 + 1, 16<<10 + 1, false, engine.Read},
	} {
		path := filepath.Join(t.TempDir(), "f")
		content := strings.Repeat("x", test.size)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		c := &http1test.Conn{DropsFiles: true}
		p := c.Open(acceptorOf(quietServer(func(ctx *sluice.RequestCtx) {
			if err := ctx.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			ctx.SetBodyStream(f, test.announced)
		})))
		last := c.Feed(t, p, []byte(simpleGet))
		p.Closed(nil)
		_, body, isWhole := strings.Cut(string(c.Sent), "\r\n\r\n")
		if last != test.last || !isWhole || test.isSent != (body == content) {
			t.Errorf("%s: %v, %.300q", name, last, c.Sent)
		}
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: it is open: %v", name, err)
		}
	}
}

// TestRewind: an incomplete head comes back as it came, and no request has begun.
func TestRewind(t *testing.T) {
	const cut = 20
	number := uint64(0)
	s := quietServer(func(ctx *sluice.RequestCtx) { number = ctx.ConnRequestNum() })
	c := &http1test.Conn{}
	p := c.Open(acceptorOf(s))
	r := p.(engine.Rewinder)
	if p.Capabilities()&engine.CanRewind == 0 || r.CanRewind() {
		t.Error("an idle connection can be rewound")
	}
	c.Feed(t, p, []byte(simpleGet[:cut]))
	if !r.CanRewind() {
		t.Error("a head cannot be rewound")
	}
	if got := string(r.Rewind()); got != simpleGet[:cut] || !p.Pause() {
		t.Errorf("%q", got)
	}
	if c.Feed(t, p, []byte(simpleGet)); number != 1 {
		t.Errorf("request %d", number)
	}
	p.Closed(nil)
}

// TestUserConn: what a handler writes on the connection comes before its response. After a
// time-out, or if the handler has closed it, the connection ends.
func TestUserConn(t *testing.T) {
	for name, test := range map[string]struct {
		handler sluice.RequestHandler
		want    string
		last    engine.Next
	}{
		"written": {func(ctx *sluice.RequestCtx) { _, _ = ctx.Conn().Write([]byte("own ")) }, "own HTTP/1.1 200 OK\r\n", engine.Read},
		"late": {func(ctx *sluice.RequestCtx) {
			ctx.Conn()
			ctx.TimeoutError("late")
		}, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n", engine.Close},
		"closed": {func(ctx *sluice.RequestCtx) { ctx.Conn().(*closableConn).isClosed = true }, "", engine.Close},
	} {
		c := &http1test.Conn{}
		p, _ := acceptorOf(quietServer(test.handler)).Open(closable{c, &closableConn{NetConn: http1test.NetConn{Conn: c}}})
		last := c.Feed(t, p, []byte(simpleGet))
		sent := strings.Replace(string(c.Sent), "Server: sluice\r\n", "", 1)
		if sent = strings.Replace(sent, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 4\r\nConnection: close", "Connection: close", 1); last != test.last || !strings.HasPrefix(sent, test.want) || test.want == "" && sent != "" {
			t.Errorf("%s: %v, %q", name, last, sent)
		}
		p.Closed(nil)
	}
}

// A closable is a connection whose handlers get conn.
type closable struct {
	*http1test.Conn
	conn *closableConn
}

func (c closable) Blocking() net.Conn { return c.conn }

type closableConn struct {
	http1test.NetConn
	isClosed bool
}

func (c *closableConn) IsClosed() bool { return c.isClosed }

// TestPublicFailures: ErrorHandler gets errors that programs can test for.
func TestPublicFailures(t *testing.T) {
	const chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	isA := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	for name, test := range map[string]struct {
		in string
		is func(error) bool
	}{
		"a long field":      {"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 1<<20), func(err error) bool { return errors.As(err, new(*sluice.ErrSmallBuffer)) }},
		"a cut head":        {"GET / HTTP/1.1\r\nHo", isA(io.ErrUnexpectedEOF)},
		"a cut body":        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc", isA(io.ErrUnexpectedEOF)},
		"a bad trailer":     {chunked + "0\r\nX Y: 1\r\n\r\n", func(err error) bool { return errors.As(err, new(sluice.ErrBrokenChunk)) }},
		"a bad chunk":       {chunked + "x\r\n", func(err error) bool { return errors.As(err, new(sluice.ErrBrokenChunk)) }},
		"a bad field":       {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX Y: 1\r\n\r\n", func(err error) bool { return err != nil && !errors.As(err, new(sluice.ErrBrokenChunk)) }},
		"two framings":      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n", func(err error) bool { return err != nil && !errors.As(err, new(sluice.ErrBrokenChunk)) }},
		"no method":         {" / HTTP/1.1\r\nHost: h\r\n\r\n", func(err error) bool { return err != nil }},
		"too large":         {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", isA(sluice.ErrBodyTooLarge)},
		"nothing is wrong":  {simpleGet, isA(nil)},
		"GET only, and not": {"POST /get-only HTTP/1.1\r\nHost: h\r\n\r\n", isA(sluice.ErrGetOnly)},
	} {
		var got error
		s := quietServer(func(*sluice.RequestCtx) {})
		s.GetOnly = strings.Contains(test.in, "/get-only")
		s.ErrorHandler = func(_ *sluice.RequestCtx, err error) { got = err }
		if converse(t, s, []byte(test.in)); !test.is(got) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFieldsOfRefusedRequests: ErrorHandler sees those of a whole head, and none of one that is
// refused itself, wherever the input is cut.
func TestFieldsOfRefusedRequests(t *testing.T) {
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nno field\r\n\r\n":                  "",
		"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX":                                 "",
		"POST / HTTP/1.1\r\nX-A: 1\r\nContent-Length: 1\r\n\r\n":                   "",
		"POST / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nContent-Length: 9\r\n\r\na":       "1",
		"POST / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nContent-Length: 99999999\r\n\r\n": "1",
		scripts()["bad chunk"]: "",
		strings.Replace(scripts()["bad chunk"], "Host: h", "Host: h\r\nX-A: 1", 1): "1",
	} {
		var log strings.Builder
		s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}, Logger: stdlog.New(&log, "", 0)}
		calls, got := 0, ""
		s.ErrorHandler = func(ctx *sluice.RequestCtx, _ error) {
			calls++
			got = string(ctx.Request.Header.Peek("X-A"))
			for range ctx.Request.Header.All() {
				got += "."
			}
			got = strings.TrimRight(got, ".")
		}
		for cut := range in {
			calls, got = 0, ""
			if converse(t, s, []byte(in[:cut]), []byte(in[cut:])); calls != 1 || got != want || log.Len() > 0 {
				t.Fatalf("%q cut at %d: %d calls, X-A is %q, logged %q", in, cut, calls, got, log.String())
			}
		}
	}
}
