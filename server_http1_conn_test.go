package sluice

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// scriptedConn is an engine.Conn, and the engine behind it, that feeds a script
// piece by piece and keeps what is answered.
type scriptedConn struct {
	pieces [][]byte // not yet received
	unread []byte   // received and not yet used
	sent   []byte
	out    []byte

	readTimeout, writeTimeout time.Duration
	isTimingOut               bool // no more input comes, instead of a FIN

	acceptor *acceptor
	sleeps   bool // the engine has protocols sleep
	isOver   bool // must not be asked anything any more
	netConns int  // calls of NetConn
}

var _ engine.Conn = (*scriptedConn)(nil)

func (c *scriptedConn) LocalAddr() net.Addr {
	c.mustLive()
	return scriptedNetConn{}.LocalAddr()
}

func (c *scriptedConn) RemoteAddr() net.Addr {
	c.mustLive()
	return scriptedNetConn{}.RemoteAddr()
}

func (c *scriptedConn) NetConn() net.Conn {
	c.mustLive()
	c.netConns++
	return scriptedNetConn{c}
}

// mustLive fails where a conn is used that the engine may have given to others.
func (c *scriptedConn) mustLive() {
	if c.isOver {
		panic("the conn is used after its end")
	}
}

func (c *scriptedConn) IsSocket() bool { return true }

func (c *scriptedConn) Prompter() engine.Prompter { return nil }

func (c *scriptedConn) Workers() engine.Workers { return nil }

func (c *scriptedConn) Target() engine.Target { return engine.Target{} }

func (c *scriptedConn) Blocking() net.Conn { return scriptedNetConn{c} }

func (c *scriptedConn) Buffered() []byte { return c.unread }

func (c *scriptedConn) Discard(n int) { c.unread = c.unread[n:] }

func (c *scriptedConn) Fill() error {
	if len(c.pieces) == 0 {
		if c.isTimingOut {
			return os.ErrDeadlineExceeded
		}
		return io.EOF
	}
	c.unread = append(append([]byte(nil), c.unread...), c.pieces[0]...)
	c.pieces = c.pieces[1:]
	return nil
}

func (c *scriptedConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		if err := c.Fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *scriptedConn) Write(p []byte) (int, error) {
	c.sent = append(c.sent, p...)
	return len(p), nil
}

func (c *scriptedConn) WriteReady(*net.Buffers) int64 { return 0 }

func (c *scriptedConn) WriteBuffers(v *net.Buffers) (n int64, err error) {
	for _, b := range *v {
		c.sent = append(c.sent, b...)
		n += int64(len(b))
	}
	*v = (*v)[len(*v):]
	return n, nil
}

func (c *scriptedConn) SetReadDeadline(_ int64, timeout time.Duration) { c.readTimeout = timeout }

func (c *scriptedConn) SetWriteTimeout(timeout time.Duration) { c.writeTimeout = timeout }

func (c *scriptedConn) OnPeerGone(func()) {}

// scriptedNetConn is what handlers see of a scriptedConn.
type scriptedNetConn struct{ *scriptedConn }

func (scriptedNetConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
}

func (scriptedNetConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: 40000}
}

func (scriptedNetConn) Close() error { return nil }

func (scriptedNetConn) SetDeadline(time.Time) error { return nil }

func (scriptedNetConn) SetReadDeadline(time.Time) error { return nil }

func (scriptedNetConn) SetWriteDeadline(time.Time) error { return nil }

// open makes the protocol of a connection to s.
func (c *scriptedConn) open(s *Server) engine.Protocol {
	c.acceptor = &acceptor{server: s, cfg: s.config()}
	p, _ := c.acceptor.Open(c)
	return p
}

// pause is what the engine does before it waits. It returns the protocol that
// goes on.
func (c *scriptedConn) pause(p engine.Protocol) engine.Protocol {
	if p.Pause() && c.sleeps {
		return c.acceptor.Wake(c, memoOf(p.(engine.Sleeper)))
	}
	return p
}

// feed has p take all of in, and returns what it wants then.
func (c *scriptedConn) feed(t testing.TB, p engine.Protocol, in []byte) engine.Next {
	c.unread = in
	for len(c.unread) > 0 {
		used, next := p.Feed(c.unread)
		if next == engine.Read && used != len(c.unread) {
			t.Fatalf("Feed wants to read on although it used %d of %d bytes", used, len(c.unread))
		}
		c.unread = c.unread[used:]
		for next == engine.Run {
			c.out, next = p.Run(c.out[:0])
			if next != engine.Abort {
				c.sent = append(c.sent, c.out...)
			}
		}
		if next != engine.Read {
			return next
		}
	}
	return engine.Read
}

// converse serves a script that arrives in pieces, up to the end of the
// connection, and returns everything that was sent.
func (c *scriptedConn) converse(t testing.TB, s *Server, pieces ...[]byte) (sent string, last engine.Next) {
	p := c.open(s)
	c.pieces = pieces
	for len(c.pieces) > 0 && last == engine.Read {
		in := c.pieces[0]
		c.pieces = c.pieces[1:]
		last = c.feed(t, p, in)
		if last == engine.Read {
			p = c.pause(p)
		}
	}
	if last == engine.Read {
		if c.isTimingOut {
			c.out, last = p.TimedOut(c.out[:0])
			c.sent = append(c.sent, c.out...)
		} else {
			c.sent = append(c.sent, p.HalfClosed(nil)...)
		}
	}
	p.Closed(nil)
	return string(c.sent), last
}

// converse is scriptedConn.converse for a connection of its own.
func converse(t testing.TB, s *Server, pieces ...[]byte) string {
	sent, _ := (&scriptedConn{}).converse(t, s, pieces...)
	return sent
}

// echoHandler answers with everything it finds in the request.
func echoHandler(ctx *RequestCtx) {
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

// quietServer has no Date in its answers and no words for its log.
func quietServer(handler RequestHandler) *Server {
	return &Server{Handler: handler, NoDefaultDate: true, Logger: silence{}}
}

type silence struct{}

func (silence) Printf(string, ...any) {}

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
						c := &scriptedConn{sleeps: sleeps}
						if got, _ := c.converse(t, s, in[:cut], in[cut:]); got != want {
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
	s := quietServer(func(ctx *RequestCtx) { ctx.NotFound() })
	s.ErrorHandler = func(ctx *RequestCtx, _ error) {
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

// TestUnreadBodiesAreDrained: the request after a streamed body that the handler
// has not read is served, wherever the input is cut.
func TestUnreadBodiesAreDrained(t *testing.T) {
	s := quietServer(func(*RequestCtx) {})
	s.StreamRequestBody = true
	for _, name := range []string{"sized", "chunked", "empty body", "empty chunks", "only a trailer"} {
		in := []byte(scripts()[name] + "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		want := converse(t, s, in)
		if codes := answeredCodes(want); len(codes) < 2 || slices.ContainsFunc(codes, func(code string) bool { return code != "200" }) {
			t.Errorf("%s: answered %q", name, codes)
		}
		for cut := 1; cut < len(in); cut++ {
			if got := converse(t, s, in[:cut], in[cut:]); got != want {
				t.Errorf("%s, cut at %d: %q, want %q", name, cut, got, want)
			}
		}
	}
}

// TestDrainsAreLimited: what a handler has not read of a body is not received
// without end.
func TestDrainsAreLimited(t *testing.T) {
	const drainLimit, piece = 256 << 10, 16 << 10 // of package http1
	data := strings.Repeat("x", piece)
	for head, in := range map[string]string{
		"Transfer-Encoding: chunked":                    fmt.Sprintf("%x\r\n%s\r\n", piece, data),
		"Content-Length: " + fmt.Sprint(2*drainLimit):   data,
		"Content-Length: " + fmt.Sprint(drainLimit+100): data,
	} {
		s := quietServer(func(*RequestCtx) {})
		s.StreamRequestBody = true
		c := &scriptedConn{}
		p := c.open(s)
		next, fed := c.feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\n"+head+"\r\n\r\n")), 0
		for next == engine.Read && fed <= drainLimit {
			next = c.feed(t, p, []byte(in))
			fed += piece
		}
		if next != engine.CloseLinger {
			t.Errorf("%s: %v after %d bytes", head, next, fed)
		}
		p.Closed(nil)
	}
}

// TestContextIsReusedClean: nothing of a request or its answer is seen by the
// next request on the same RequestCtx.
func TestContextIsReusedClean(t *testing.T) {
	var seen []string
	s := quietServer(func(ctx *RequestCtx) {
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
			var cookie Cookie
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

func TestDeadlinesOfConnection(t *testing.T) {
	c := &scriptedConn{}
	s := quietServer(func(ctx *RequestCtx) {
		if string(ctx.Path()) == "/own" {
			if err := ctx.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil || c.writeTimeout < time.Minute {
				t.Errorf("after SetWriteDeadline: %v, %v", c.writeTimeout, err)
			}
		}
		echoHandler(ctx)
	})
	s.ReadTimeout, s.IdleTimeout, s.WriteTimeout = 2*time.Second, 3*time.Second, 4*time.Second
	s.HeaderReceived = func(h *RequestHeader) RequestConfig {
		if string(h.RequestURI()) == "/slow" {
			return RequestConfig{ReadTimeout: 7 * time.Second, WriteTimeout: 8 * time.Second}
		}
		return RequestConfig{}
	}
	p := c.open(s)
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
		if next := c.feed(t, p, []byte(step.in)); next != engine.Read {
			t.Fatalf("step %d: %v", i, next)
		}
		if c.readTimeout != step.read || c.writeTimeout != step.write {
			t.Errorf("step %d: time-outs are %v and %v, want %v and %v", i, c.readTimeout, c.writeTimeout, step.read, step.write)
		}
	}
	p.Closed(nil)
}

func TestMinBodyRate(t *testing.T) {
	s := quietServer(echoHandler)
	s.MinBodyRate = 1000
	c := &scriptedConn{}
	p := c.open(s)
	c.feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n"))
	if c.readTimeout != bodyRateGrace {
		t.Errorf("the first byte has %v", c.readTimeout)
	}
	c.feed(t, p, make([]byte, 3000))
	if want := bodyRateGrace + 3*time.Second; c.readTimeout != want {
		t.Errorf("after 3000 bytes there are %v, want %v", c.readTimeout, want)
	}
	out, next := p.TimedOut(nil)
	if next != engine.CloseLinger || !bytes.HasPrefix(out, []byte("HTTP/1.1 408 ")) {
		t.Errorf("timed out with %v, %q", next, out)
	}
	p.Closed(nil)

	s.ReadTimeout = 6 * time.Second
	c = &scriptedConn{}
	p = c.open(s)
	c.feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n"))
	c.feed(t, p, make([]byte, 8000))
	if c.readTimeout != s.ReadTimeout {
		t.Errorf("the rate allows %v, over ReadTimeout", c.readTimeout)
	}
	p.Closed(nil)
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
		s.ErrorHandler = func(ctx *RequestCtx, err error) { got = err }
		c := &scriptedConn{isTimingOut: true}
		sent, last := c.converse(t, s, []byte(test.in))
		if codes := strings.Join(answeredCodes(sent), " "); codes != test.status || last != test.last {
			t.Errorf("%s: %v, %q", test.name, last, sent)
		}
		if netErr, ok := got.(net.Error); (test.status == "408") != (ok && netErr.Timeout()) {
			t.Errorf("%s: ErrorHandler got %v", test.name, got)
		}
	}
}

// TestClosedFreesContext: whatever state a connection ends in, its memory
// accounting ends at zero and nothing of it is kept.
func TestClosedFreesContext(t *testing.T) {
	for name, script := range scripts() {
		for cut := 0; cut <= len(script); cut++ {
			s := quietServer(echoHandler)
			s.MaxBodyMemory = 1 << 20
			c := &scriptedConn{}
			p := c.open(s)
			c.feed(t, p, []byte(script[:cut]))
			p.Pause()
			p.Closed(net.ErrClosed)
			if n := s.gauges.bodyMemory.Load(); n != 0 {
				t.Fatalf("%s, closed after %d bytes: %d bytes of bodies are counted", name, cut, n)
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
		s := quietServer(func(ctx *RequestCtx) {})
		s.StreamRequestBody = strings.Contains(test.in, "/unread")
		c := &scriptedConn{}
		p := c.open(s)
		c.feed(t, p, []byte(test.in))
		if got := p.Pause(); got != test.isIdle {
			t.Errorf("after %q: idle is %v", test.in, got)
		}
		p.Closed(nil)
	}
}

// TestDoneStatesAreForgotten when their requests end: a server that runs for
// long does not collect them.
func TestDoneStatesAreForgotten(t *testing.T) {
	s := quietServer(func(ctx *RequestCtx) {
		ctx.Done()
		if n := ctx.server.done.Len(); n != 1 {
			t.Errorf("%d states during a request", n)
		}
	})
	converse(t, s, []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 3)))
	if n := s.done.Len(); n != 0 {
		t.Errorf("%d states are left", n)
	}
}

// TestReleasedCtxIsSmall: what one large request needed does not stay in the
// pool.
func TestReleasedCtxIsSmall(t *testing.T) {
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = 'a'
	}
	ctx := &RequestCtx{}
	ctx.Request.PostArgs().SetBytesV("k", large)
	ctx.Request.URI().QueryArgs().SetBytesV("k", large)
	ctx.Request.Header.SetBytesV("X", large)
	ctx.Response.Header.SetBytesV("X", large)
	ctx.cfg = (&Server{}).config()
	ctx.Request.resetForServer()
	ctx.Response.resetForServer()
	(*servedRequest)(ctx).Release(false)
	for name, held := range map[string]int{
		"post args":       ctx.Request.postArgs.heldBytes(),
		"uri":             ctx.Request.uri.heldBytes(),
		"request header":  cap(ctx.Request.Header.m.Table.Raw()),
		"response header": cap(ctx.Response.Header.m.Table.Raw()),
	} {
		if held > maxPooledBytes {
			t.Errorf("%s: %d bytes", name, held)
		}
	}
}

// TestBodyFormValueOfAnotherField: a form without the field has no value of it.
func TestBodyFormValueOfAnotherField(t *testing.T) {
	var ctx RequestCtx
	ctx.Request.Header.SetContentType("multipart/form-data; boundary=b")
	ctx.Request.SetBodyString("--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--b--\r\n")
	if got := bodyFormValue(&ctx, "other"); got != nil {
		t.Errorf("%q", got)
	}
	if got := bodyFormValue(&ctx, "k"); string(got) != "v" {
		t.Errorf("%q", got)
	}
}
