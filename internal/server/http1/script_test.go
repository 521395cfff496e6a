package http1_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
	"github.com/sluicehttp/sluice/test/harness"
)

// acceptorOf returns what an engine gets for the connections of s.
func acceptorOf(s *sluice.Server) engine.Acceptor {
	return s.Control().Value(server.Key{}).(engine.Acceptor)
}

// quietServer has no Date in its answers and no words for its log.
func quietServer(handler sluice.RequestHandler) *sluice.Server {
	return &sluice.Server{Handler: handler, NoDefaultDate: true, Logger: silence{}}
}

type silence struct{}

func (silence) Printf(string, ...any) {}

// converse is http1test.Conn.Converse for a connection of its own.
func converse(t testing.TB, s *sluice.Server, pieces ...[]byte) string {
	sent, _ := (&http1test.Conn{}).Converse(t, acceptorOf(s), pieces...)
	return sent
}

// echoHandler answers with everything it finds in the request.
func echoHandler(ctx *sluice.RequestCtx) {
	body := ctx.PostBody()
	ctx.SetContentType("text/x-echo")
	fmt.Fprintf(ctx, "%s %s host=%s\n", ctx.Method(), ctx.RequestURI(), ctx.Host())
	for name, value := range ctx.Request.Header.All() {
		fmt.Fprintf(ctx, "%s=%s\n", name, value)
	}
	fmt.Fprintf(ctx, "body %d %q\n", len(body), body)
	for name := range ctx.Request.Header.Trailers() {
		fmt.Fprintf(ctx, "trailer %s=%s\n", name, ctx.Request.Header.PeekBytes(name))
	}
}

// scripts are inputs of whole connections: requests in a row, or one that is
// wrong at the end of some.
func scripts() map[string]string {
	const chunked = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" +
		"5;e=\"v\"\r\nhello\r\n00001\r\n!\r\n0\r\nX-Sum: 7\r\n\r\n"
	const sized = "PUT /s?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nContent-Type: text/plain\r\n\r\nhello world"
	const simple = "GET /g HTTP/1.1\r\nHost: h\r\nCookie: a=b; c=d\r\n\r\n"
	return map[string]string{
		"simple":           simple,
		"two":              simple + simple,
		"sized":            sized,
		"chunked":          chunked,
		"pipeline":         simple + sized + chunked + simple + sized + "\r\n" + simple,
		"empty body":       "POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" + simple,
		"empty chunks":     "POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + simple,
		"only a trailer":   "POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 7\r\n\r\n" + simple,
		"old":              "GET / HTTP/1.0\r\n\r\n" + simple,
		"old keep-alive":   "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + simple,
		"head":             "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + simple,
		"close":            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + simple,
		"absolute":         "GET http://other/x HTTP/1.1\r\nHost: other\r\n\r\n" + simple,
		"body not a req":   "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n!" + "\r\n" + simple,
		"bad then good":    simple + "GET  / HTTP/1.1\r\n\r\n" + simple,
		"bare lf":          "GET / HTTP/1.1\nHost: h\n\n" + simple,
		"two lengths":      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd" + simple,
		"length and te":    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + simple,
		"bad chunk":        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n" + simple,
		"bad chunk size":   "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n" + simple,
		"bad trailer":      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX Y: 1\r\n\r\n" + simple,
		"no host":          "GET / HTTP/1.1\r\n\r\n" + simple,
		"unknown coding":   "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n" + simple,
		"http 2":           "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
		"http 0.9":         "GET /\r\n\r\n",
		"cut in head":      simple + "GET /x HTTP/1.1\r\nHo",
		"cut in body":      simple + "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc",
		"cut in chunk":     "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
		"cut in trailer":   "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ",
		"cut after crlf":   simple + "\r\n",
		"tls hello":        "\x16\x03\x01\x00\xa5\x01\x00\x00",
		"only empty lines": "\r\n",
	}
}

// TestAnswersDoNotDependOnSegments cuts scripts at every byte, in two and into
// single bytes: the answers must be the same, byte for byte, also where the
// engine has connections sleep.
func TestAnswersDoNotDependOnSegments(t *testing.T) {
	for _, isStreaming := range []bool{false, true} {
		s := quietServer(echoHandler)
		s.StreamRequestBody = isStreaming
		for name, script := range scripts() {
			t.Run(fmt.Sprintf("%s/stream=%v", name, isStreaming), func(t *testing.T) {
				in := []byte(script)
				want := converse(t, s, in)
				for cut := 1; cut < len(in); cut++ {
					for _, sleeps := range []bool{false, true} {
						c := &http1test.Conn{Sleeps: sleeps}
						if got, _ := c.Converse(t, acceptorOf(s), in[:cut], in[cut:]); got != want {
							t.Fatalf("cut at %d of %q, sleeps=%v:\n got %q\nwant %q", cut, script, sleeps, got, want)
						}
					}
				}
				single := make([][]byte, len(in))
				for i := range in {
					single[i] = in[i : i+1]
				}
				if got := converse(t, s, single...); got != want {
					t.Fatalf("byte by byte:\n got %q\nwant %q", got, want)
				}
				if strings.Contains(want, "/smuggled host") {
					t.Errorf("a body was served as a request: %q", want)
				}
			})
		}
	}
}

// TestStreamingAnswersAlike: a handler that reads the whole body cannot tell
// whether it was streamed.
func TestStreamingAnswersAlike(t *testing.T) {
	buffered, streaming := quietServer(echoHandler), quietServer(echoHandler)
	streaming.StreamRequestBody = true
	for name, script := range scripts() {
		want := converse(t, buffered, []byte(script))
		got := converse(t, streaming, []byte(script))
		if bodyIsMalformed := strings.Contains(name, "cut in") || strings.HasPrefix(name, "bad "); bodyIsMalformed {
			continue // the handler of a stream is called before that is known
		}
		if name == "empty chunks" {
			continue // the head of a stream does not know that it is empty
		}
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
}

// answeredCodes returns the status codes of the answers' status lines.
func answeredCodes(sent string) (codes []string) {
	for _, line := range strings.Split(sent, "\r\n") {
		if i := strings.Index(line, "HTTP/1.1 "); i >= 0 && len(line) >= i+12 {
			codes = append(codes, line[i+9:i+12])
		}
	}
	return codes
}

func TestScriptStatuses(t *testing.T) {
	want := map[string]string{
		"simple": "200", "two": "200 200", "sized": "200", "chunked": "200", "pipeline": "200 200 200 200 200 200",
		"empty body": "200 200", "empty chunks": "200 200", "only a trailer": "200 200", "old": "200", "old keep-alive": "200 200", "head": "200 200",
		"close": "200", "absolute": "200 200", "body not a req": "200 200", "bad then good": "200 400", "bare lf": "400",
		"two lengths": "400", "length and te": "400", "bad chunk": "400", "bad chunk size": "400", "bad trailer": "400",
		"no host": "400", "unknown coding": "501", "http 2": "505", "http 0.9": "400", "cut in head": "200 400",
		"cut in body": "200 400", "cut in chunk": "400", "cut in trailer": "400", "cut after crlf": "200",
		"tls hello": "400", "only empty lines": "",
	}
	s := quietServer(echoHandler)
	for name, script := range scripts() {
		if got := strings.Join(answeredCodes(converse(t, s, []byte(script))), " "); got != want[name] {
			t.Errorf("%s: answered %q, want %q", name, got, want[name])
		}
	}
}

// TestErrorsAreNotOfTheRequestBefore: the answer to a request that cannot be read
// depends on nothing that the one before it was.
func TestErrorsAreNotOfTheRequestBefore(t *testing.T) {
	s := quietServer(func(ctx *sluice.RequestCtx) { ctx.NotFound() })
	s.ErrorHandler = func(ctx *sluice.RequestCtx, _ error) {
		ctx.NotFound()
		ctx.SetBodyStream(strings.NewReader("bad"), -1)
	}
	const bad = "GET  / HTTP/1.1\r\n\r\n"
	want := converse(t, s, []byte(bad))
	if codes := answeredCodes(want); len(codes) != 1 || codes[0] != "404" || !strings.HasSuffix(want, "\r\n\r\n3\r\nbad\r\n0\r\n\r\n") {
		t.Errorf("alone: %q", want)
	}
	for _, line := range []string{"HEAD / HTTP/1.1", "CONNECT h:80 HTTP/1.1", "GET / HTTP/1.0\r\nConnection: keep-alive"} {
		got := converse(t, s, []byte(line+"\r\nHost: h:80\r\n\r\n"+bad))
		if codes := answeredCodes(got); len(codes) != 2 || !strings.HasSuffix(got, want) {
			t.Errorf("after %q: %q, want %q at its end", line, got, want)
		}
	}
}

// TestContextIsReusedClean: nothing of a request or its answer is seen by the
// next request on the same RequestCtx.
func TestContextIsReusedClean(t *testing.T) {
	var seen []string
	s := quietServer(func(ctx *sluice.RequestCtx) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s host=%s body=%q values=%v status=%d out=%q hijacked=%v timeout=%v stream=%v close=%v remote=%v trailer=%v",
			ctx.Method(), ctx.RequestURI(), ctx.Host(), ctx.PostBody(), ctx.UserValue("k"), ctx.Response.StatusCode(),
			ctx.Response.Body(), ctx.Hijacked(), ctx.LastTimeoutErrorResponse(), ctx.IsBodyStream(), ctx.Response.ConnectionClose(),
			ctx.RemoteAddr(), ctx.Request.Header.Len())
		for name, value := range ctx.Request.Header.All() {
			fmt.Fprintf(&b, " %s=%s", name, value)
		}
		for name, value := range ctx.Response.Header.All() {
			fmt.Fprintf(&b, " <%s=%s", name, value)
		}
		fmt.Fprintf(&b, " arg=%s post=%s cookie=%s", ctx.QueryArgs().Peek("q"), ctx.PostArgs().Peek("p"), ctx.Request.Header.Cookie("c"))
		seen = append(seen, b.String())
		if string(ctx.Path()) != "/clean" {
			ctx.SetUserValue("k", "secret")
			ctx.SetRemoteAddr(&net.TCPAddr{IP: net.IPv4(9, 9, 9, 9)})
			ctx.SetStatusCode(418)
			ctx.Response.Header.Set("X-Secret", "1")
			ctx.Response.Header.SetStatusMessage([]byte("Secret"))
			ctx.Response.Header.SetContentType("x/secret")
			ctx.Response.Header.SetServer("secret")
			ctx.Response.ImmediateHeaderFlush = true
			ctx.Response.SkipBody = true
			var cookie sluice.Cookie
			cookie.SetKey("secret")
			cookie.SetValue("1")
			ctx.Response.Header.SetCookie(&cookie)
			_ = ctx.Response.Header.AddTrailer("X-Late")
			ctx.SetBodyString("secret")
		}
	})
	clean := "GET /clean HTTP/1.1\r\nHost: h\r\n\r\n"
	dirty := "POST /dirty?q=1 HTTP/1.1\r\nHost: other\r\nCookie: c=d\r\nX-Secret: 1\r\nTransfer-Encoding: chunked\r\n" +
		"Content-Type: application/x-www-form-urlencoded\r\n\r\n3\r\np=1\r\n0\r\nX-T: 1\r\n\r\n"
	first := converse(t, s, []byte(clean))
	both := converse(t, s, []byte(clean+dirty+clean), []byte(clean))
	if len(seen) != 5 || seen[0] != seen[1] || seen[0] != seen[3] || seen[0] != seen[4] {
		t.Errorf("requests differ:\n%s", strings.Join(seen, "\n"))
	}
	if !strings.HasPrefix(both, first) || !strings.HasSuffix(both, first+first) {
		t.Errorf("answers differ: %q in %q", first, both)
	}
}

// TestClosedFreesContext: whatever state a connection ends in, its memory
// accounting ends at zero and nothing of it is kept.
func TestClosedFreesContext(t *testing.T) {
	const memory = 100
	largest := harness.Request("POST / HTTP/1.1", fmt.Sprint("Content-Length: ", memory)) + strings.Repeat("x", memory)
	for name, script := range scripts() {
		for cut := 0; cut <= len(script); cut++ {
			s := quietServer(echoHandler)
			s.MaxBodyMemory = memory
			c := &http1test.Conn{}
			p := c.Open(acceptorOf(s))
			c.Feed(t, p, []byte(script[:cut]))
			p.Pause()
			p.Closed(net.ErrClosed)
			if got := converse(t, s, []byte(largest)); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Fatalf("%s, closed after %d bytes: bytes of bodies are counted: %q", name, cut, got)
			}
		}
	}
}

// TestPauseTellsWhatIsIdle: an engine may close or give away a connection only
// where nothing of a request has come or is to come.
func TestPauseTellsWhatIsIdle(t *testing.T) {
	const done = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	tests := []struct {
		in     string
		isIdle bool
	}{
		{done, true},
		{"\r\n", true},
		{done + "\r\n", true},
		{done + "\r", false},
		{"G", false},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", false},
		{"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", false},
		{"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", false},
		{"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde", true},
	}
	for _, test := range tests {
		s := quietServer(func(ctx *sluice.RequestCtx) {})
		s.StreamRequestBody = strings.Contains(test.in, "/unread")
		c := &http1test.Conn{}
		p := c.Open(acceptorOf(s))
		c.Feed(t, p, []byte(test.in))
		if got := p.Pause(); got != test.isIdle {
			t.Errorf("after %q: idle is %v", test.in, got)
		}
		p.Closed(nil)
	}
}
