package difftest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// TestAnswersWithoutBody compares the answers whose bodies are not sent, and what
// comes after them on the connection (S72, S73).
func TestAnswersWithoutBody(t *testing.T) {
	for _, r := range []struct {
		row, name, method string
		their             func(ctx *fasthttp.RequestCtx)
		our               func(ctx *sluice.RequestCtx)
		want              string
	}{
		{"", "HEAD", "HEAD", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("abc") }, func(ctx *sluice.RequestCtx) { ctx.SetBodyString("abc") }, "200 length 3, then 200"},
		{"S72", "time-out", "HEAD", func(ctx *fasthttp.RequestCtx) { ctx.TimeoutError("late") }, func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") }, "408 length 4, then 200"},
		{"S72", "HEAD as GET", "HEAD",
			func(ctx *fasthttp.RequestCtx) { ctx.Request.Header.SetMethod("GET"); ctx.SetBodyString("abc") },
			func(ctx *sluice.RequestCtx) { ctx.Request.Header.SetMethod("GET"); ctx.SetBodyString("abc") }, "200 length 3, then 200"},
		{"S72", "GET as HEAD", "GET",
			func(ctx *fasthttp.RequestCtx) { ctx.Request.Header.SetMethod("HEAD"); ctx.SetBodyString("abc") },
			func(ctx *sluice.RequestCtx) { ctx.Request.Header.SetMethod("HEAD"); ctx.SetBodyString("abc") }, "200 length 3 abc, then 200"},
		{"S73", "skipped", "GET",
			func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("abc"); ctx.Response.SkipBody = true },
			func(ctx *sluice.RequestCtx) { ctx.SetBodyString("abc"); ctx.Response.SkipBody = true }, "200 length 0, then 200"},
	} {
		request := strings.Replace(plainGet, "GET", r.method, 1) + strings.Replace(closingGet, "/", "/next", 1)
		theirs := &fasthttp.Server{Logger: silent{}, Handler: func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) != "/next" {
				r.their(ctx)
			}
		}}
		ours := &sluice.Server{Logger: silent{}, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) != "/next" {
				r.our(ctx)
			}
		}}
		want, got := twoAnswers(answersOf(t, theirs, request)), twoAnswers(answersOf(t, ours, request))
		if got != r.want {
			t.Errorf("%s: %s, want %s", r.name, got, r.want)
		}
		if (want != got) != (r.row != "") {
			t.Errorf("%s %s: fasthttp %s, sluice %s", r.row, r.name, want, got)
		}
	}
}

// twoAnswers describes what a connection got: the first answer with what is
// between its head and the next answer, and the status of the next one.
func twoAnswers(text string) string {
	head, rest, _ := strings.Cut(text, "\r\n\r\n")
	_, length, _ := strings.Cut(head, "Content-Length: ")
	length, _, _ = strings.Cut(length, "\r\n")
	body, next, _ := strings.Cut(rest, "HTTP/1.1 ")
	if body != "" {
		body = " " + body
	}
	return fmt.Sprintf("%.3s length %s%s, then %.3s", strings.TrimPrefix(head, "HTTP/1.1 "), length, body, next)
}

// TestAnswersToHeadThatWereRead compares the answer to HEAD of a proxy: a response
// that was read, without its body.
func TestAnswersToHeadThatWereRead(t *testing.T) {
	for _, head := range []string{
		"Transfer-Encoding: chunked\r\n", "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 0\r\n", "Content-Length: 5\r\n",
		"X: y\r\n", "Content-Type: a/b\r\n", "Content-Type: a/b\r\nTransfer-Encoding: chunked\r\n",
	} {
		read := func() *bufio.Reader { return bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n" + head + "\r\n")) }
		theirs := &fasthttp.Server{Logger: silent{}, Name: "s", NoDefaultDate: true, Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.SkipBody = true
			if err := ctx.Response.Read(read()); err != nil {
				t.Error(err)
			}
			ctx.Response.Header.Del("Connection")
		}}
		ours := &sluice.Server{Logger: silent{}, Name: "s", NoDefaultDate: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.Response.SkipBody = true
			if err := ctx.Response.Read(read()); err != nil {
				t.Error(err)
			}
			ctx.Response.Header.Del("Connection")
		}}
		request := strings.Replace(closingGet, "GET", "HEAD", 1)
		if got, want := sortedLines(answersOf(t, ours, request)), sortedLines(answersOf(t, theirs, request)); got != want {
			t.Errorf("%q: got %q, want %q", head, got, want)
		}
		var their fasthttp.Response
		var our sluice.Response
		their.SkipBody, our.SkipBody = true, true
		if err := errors.Join(their.Read(read()), our.Read(read())); err != nil {
			t.Error(err)
		}
		got, want := dateLine.ReplaceAllString(our.String(), ""), dateLine.ReplaceAllString(their.String(), "")
		if got, want = sortedLines(got), sortedLines(want); got != want {
			t.Errorf("%q: wrote %q, want %q", head, got, want)
		}
	}
}

// sortedLines are the lines of a head in one order.
func sortedLines(head string) string {
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines)
	return strings.Join(lines, "\r\n")
}

// TestOptionsHold compares which options of the server hold when a handler
// begins its response anew (S74).
func TestOptionsHold(t *testing.T) {
	for name, begin := range map[string][2]func(ctx any){
		"nothing":  {func(any) {}, func(any) {}},
		"Error":    {func(ctx any) { ctx.(*fasthttp.RequestCtx).Error("x", 200) }, func(ctx any) { ctx.(*sluice.RequestCtx).Error("x", 200) }},
		"NotFound": {func(ctx any) { ctx.(*fasthttp.RequestCtx).NotFound() }, func(ctx any) { ctx.(*sluice.RequestCtx).NotFound() }},
	} {
		theirs := &fasthttp.Server{Logger: silent{}, NoDefaultDate: true, DisableHeaderNamesNormalizing: true, Handler: func(ctx *fasthttp.RequestCtx) {
			begin[0](ctx)
			ctx.Response.Header.Set("x-own", "1")
		}}
		ours := &sluice.Server{Logger: silent{}, NoDefaultDate: true, DisableHeaderNamesNormalizing: true, Handler: func(ctx *sluice.RequestCtx) {
			begin[1](ctx)
			ctx.Response.Header.Set("x-own", "1")
		}}
		holds := func(s server) bool {
			conn := &keptConn{cannedConn: cannedConn{in: strings.NewReader(closingGet)}}
			_ = s.ServeConn(conn)
			answer := conn.out.String()
			return strings.Contains(answer, "\r\nx-own: 1\r\n") && !strings.Contains(answer, "\r\nDate: ")
		}
		if !holds(ours) {
			t.Errorf("%s: sluice forgets", name)
		}
		if holds(theirs) != (name == "nothing") {
			t.Errorf("%s: fasthttp holds: %v", name, holds(theirs))
		}
	}
}

// TestUsedWithoutServer compares what tests of handlers do without a server: S76
// and H31.
func TestUsedWithoutServer(t *testing.T) {
	var theirCtx fasthttp.RequestCtx
	theirCtx.Init(&fasthttp.Request{}, nil, silent{})
	var ourCtx sluice.RequestCtx
	ourCtx.Init(&sluice.Request{}, nil, silent{})
	if theirs, ours := theirCtx.Conn() != nil, ourCtx.Conn() != nil; !theirs || ours {
		t.Errorf("S76: fasthttp has a connection: %v, sluice: %v", theirs, ours)
	}
	if theirs, ours := theirCtx.EarlyHints(), ourCtx.EarlyHints(); theirs != nil || ours == nil {
		t.Errorf("S76: EarlyHints: fasthttp %v, sluice %v", theirs, ours)
	}
	var hints [2]bytes.Buffer
	theirCtx.Init2(writerConn{written: &hints[0]}, silent{}, false)
	ourCtx.Init2(writerConn{written: &hints[1]}, silent{}, false)
	theirCtx.Response.Header.Set("Link", "</a>")
	ourCtx.Response.Header.Set("Link", "</a>")
	if theirs, ours := theirCtx.EarlyHints(), ourCtx.EarlyHints(); theirs != nil || ours != nil || hints[0].String() != hints[1].String() {
		t.Errorf("EarlyHints after Init2: fasthttp %v, %q, sluice %v, %q", theirs, &hints[0], ours, &hints[1])
	}
	theirCtx.Init(&fasthttp.Request{}, nil, silent{})
	ourCtx.Init(&sluice.Request{}, nil, silent{})
	if theirs, ours := theirCtx.RemoteAddr().String(), ourCtx.RemoteAddr().String(); theirs != ours {
		t.Errorf("RemoteAddr: fasthttp %s, sluice %s", theirs, ours)
	}
	theirs, ours := theirCtx.Response.Header.AppendBytes([]byte("x")), ourCtx.Response.Header.AppendBytes([]byte("x"))
	if theirs[0] != 'H' || string(ours[:2]) != "xH" {
		t.Errorf("H31: fasthttp %q, sluice %q", theirs, ours)
	}
}

// TestNamesOfTypes compares what %T prints for the errors of M82, and for others.
func TestNamesOfTypes(t *testing.T) {
	for theirs, ours := range map[any]any{
		fasthttp.ErrSmallBuffer{}: sluice.ErrSmallBuffer{}, fasthttp.ErrNothingRead{}: sluice.ErrNothingRead{}, fasthttp.ErrBrokenChunk{}: sluice.ErrBrokenChunk{},
		fasthttp.ErrBodyStreamWritePanic{}: sluice.ErrBodyStreamWritePanic{}, new(fasthttp.ErrDialWithUpstream): new(sluice.ErrDialWithUpstream),
		fasthttp.EscapeError(""): sluice.EscapeError(""), fasthttp.InvalidHostError(""): sluice.InvalidHostError(""),
		fasthttp.FIFO: sluice.FIFO, fasthttp.StateNew: sluice.StateNew, fasthttp.CookieSameSiteLaxMode: sluice.CookieSameSiteLaxMode, fasthttp.RequestConfig{}: sluice.RequestConfig{},
		new(fasthttp.RequestCtx): new(sluice.RequestCtx), new(fasthttp.Response): new(sluice.Response), new(fasthttp.Client): new(sluice.Client), new(fasthttp.Cookie): new(sluice.Cookie),
	} {
		_, isError := theirs.(error)
		_, theirName, _ := strings.Cut(fmt.Sprintf("%T", theirs), ".")
		ourPackage, ourName, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", ours), "*"), ".")
		if ourName != theirName || isError == (ourPackage == "sluice") {
			t.Errorf("%T is named %T", theirs, ours)
		}
	}
}

// A writerConn writes to a buffer. Nothing else of it is called.
type writerConn struct {
	net.Conn
	written *bytes.Buffer
}

func (c writerConn) Write(p []byte) (int, error) { return c.written.Write(p) }

// TestCopiesOfStreams compares the bodies of copies of requests whose bodies are
// streamed (D28).
func TestCopiesOfStreams(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
	for _, r := range []struct {
		isRead       bool
		theirs, ours string
	}{{true, "abc", "abc"}, {false, "abc", ""}} {
		theirs := &fasthttp.Server{Logger: silent{}, StreamRequestBody: true, Handler: func(ctx *fasthttp.RequestCtx) {
			if r.isRead {
				ctx.PostBody()
			}
			var request fasthttp.Request
			ctx.Request.CopyTo(&request)
			ctx.SetBody(request.Body())
		}}
		ours := &sluice.Server{Logger: silent{}, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			if r.isRead {
				ctx.PostBody()
			}
			var request sluice.Request
			ctx.Request.CopyTo(&request)
			ctx.SetBody(request.Body())
		}}
		_, their, _ := strings.Cut(answersOf(t, theirs, post), "\r\n\r\n")
		_, our, _ := strings.Cut(answersOf(t, ours, post), "\r\n\r\n")
		if their != r.theirs || our != r.ours {
			t.Errorf("read %v: fasthttp %q, sluice %q", r.isRead, their, our)
		}
	}
}
