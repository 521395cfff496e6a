package http1_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// TestReadsOfStreams: a handler gets a streamed body in parts of any size, within the time-out, and
// learns whether it was whole.
func TestReadsOfStreams(t *testing.T) {
	const data = "hello, world"
	for head, body := range map[string]string{
		"Content-Length: 12":         data,
		"Transfer-Encoding: chunked": "1\r\nh\r\nB;x=y\r\nello, world\r\n0\r\nX: y\r\n\r\n",
	} {
		whole := "POST / HTTP/1.1\r\nHost: h\r\n" + head + "\r\n\r\n" + body
		for in, end := range map[string]error{whole + simpleGet: io.EOF, whole[:len(whole)-1]: io.ErrUnexpectedEOF} {
			for _, piece := range []int{1, 3, len(in)} {
				for _, size := range []int{1, 5, 12, 13, 100} {
					c := &http1test.Conn{}
					s := quietServer(func(ctx *sluice.RequestCtx) {
						if ctx.IsGet() {
							return
						}
						var got []byte
						for {
							p := make([]byte, size)
							n, err := ctx.RequestBodyStream().Read(p)
							if got = append(got, p[:n]...); err != nil {
								if _, again := ctx.RequestBodyStream().Read(p); !errors.Is(err, end) || !errors.Is(again, end) || !strings.HasPrefix(data, string(got)) || end == io.EOF && string(got) != data {
									t.Errorf("%q in pieces of %d, reads of %d: %q, %v, then %v", in, piece, size, got, err, again)
								}
								return
							}
							if n == 0 || c.ReadTimeout != time.Minute {
								t.Fatalf("%q in pieces of %d, reads of %d: %d bytes within %v", in, piece, size, n, c.ReadTimeout)
							}
						}
					})
					s.StreamRequestBody, s.ReadTimeout, s.IdleTimeout = true, time.Minute, time.Hour
					sent, _ := c.Converse(t, acceptorOf(s), slices.Collect(slices.Chunk([]byte(in), piece))...)
					if codes := strings.Join(answeredCodes(sent), " "); codes != "200 200" && end == io.EOF {
						t.Errorf("%q in pieces of %d, reads of %d: answered %s", in, piece, size, codes)
					}
				}
			}
		}
	}
}

// TestUnreadBodiesAreDrained: the request after a streamed body that the handler
// has not read is served, wherever the input is cut.
func TestUnreadBodiesAreDrained(t *testing.T) {
	s := quietServer(func(*sluice.RequestCtx) {})
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
		s := quietServer(func(*sluice.RequestCtx) {})
		s.StreamRequestBody = true
		c := &http1test.Conn{}
		p := c.Open(acceptorOf(s))
		next, fed := c.Feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\n"+head+"\r\n\r\n")), 0
		for next == engine.Read && fed <= drainLimit {
			next = c.Feed(t, p, []byte(in))
			fed += piece
		}
		if next != engine.CloseLinger {
			t.Errorf("%s: %v after %d bytes", head, next, fed)
		}
		p.Closed(nil)
	}
}

// TestDrainLimit: 256 KiB that the handler has not read are received, within 50 ms; for more,
// the connection ends at once.
func TestDrainLimit(t *testing.T) {
	for size, want := range map[int]engine.Next{256 << 10: engine.Read, 256<<10 + 1: engine.CloseLinger} {
		s := quietServer(func(*sluice.RequestCtx) {})
		s.StreamRequestBody = true
		c := &http1test.Conn{}
		p := c.Open(acceptorOf(s))
		next := c.Feed(t, p, []byte(fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size)))
		if next != want || next == engine.Read && c.ReadTimeout != 50*time.Millisecond {
			t.Errorf("%d bytes: %v, within %v", size, next, c.ReadTimeout)
		}
		if next == engine.Read {
			if next = c.Feed(t, p, make([]byte, size)); next != engine.Read || c.ReadTimeout != 0 {
				t.Errorf("%d bytes: afterwards %v, within %v", size, next, c.ReadTimeout)
			}
		}
		if says := strings.Contains(string(c.Sent), "\r\nConnection: close\r\n"); says != (want == engine.CloseLinger) {
			t.Errorf("%d bytes: %q", size, c.Sent)
		}
		p.Closed(nil)
	}
}

// TestDrainLimitOfChunks: it counts what comes after the response, of each request anew.
func TestDrainLimitOfChunks(t *testing.T) {
	s := quietServer(func(*sluice.RequestCtx) {})
	s.StreamRequestBody = true
	c := &http1test.Conn{}
	p := c.Open(acceptorOf(s))
	const head, size = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "3fff0\r\n"
	data := strings.Repeat("x", 0x3fff0)
	for i, step := range []struct {
		in   string
		next engine.Next
	}{
		{head, engine.Read}, {size + data + "\r\n0\r\n\r\n", engine.Read}, // 2 bytes less than the limit
		{head, engine.Read}, {size + data + "\r\n", engine.Read}, {"4\r\nabcd", engine.Read}, {"\r", engine.CloseLinger}, // 1 more
	} {
		if next := c.Feed(t, p, []byte(step.in)); next != step.next {
			t.Errorf("step %d: %v", i, next)
		}
	}
	p.Closed(nil)
}

func TestMinBodyRate(t *testing.T) {
	s := quietServer(echoHandler)
	s.MinBodyRate = 1000
	const bodyRateGrace = 5 * time.Second
	c := &http1test.Conn{}
	p := c.Open(acceptorOf(s))
	c.Feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n"))
	if c.ReadTimeout != bodyRateGrace {
		t.Errorf("the first byte has %v", c.ReadTimeout)
	}
	c.Feed(t, p, make([]byte, 3000))
	if want := bodyRateGrace + 3*time.Second; c.ReadTimeout != want {
		t.Errorf("after 3000 bytes there are %v, want %v", c.ReadTimeout, want)
	}
	out, next := p.TimedOut(nil)
	if next != engine.CloseLinger || !bytes.HasPrefix(out, []byte("HTTP/1.1 408 ")) {
		t.Errorf("timed out with %v, %q", next, out)
	}
	p.Closed(nil)

	s.ReadTimeout = 6 * time.Second
	c = &http1test.Conn{}
	p = c.Open(acceptorOf(s))
	c.Feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n"))
	c.Feed(t, p, make([]byte, 8000))
	if c.ReadTimeout != s.ReadTimeout {
		t.Errorf("the rate allows %v, over ReadTimeout", c.ReadTimeout)
	}
	p.Closed(nil)
}

// TestAnswerIsNotLostToAReset: a connection whose client may still be sending lingers
// (RFC 9112 section 9.6).
func TestAnswerIsNotLostToAReset(t *testing.T) {
	for _, head := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		for name, c := range map[string]struct {
			handler sluice.RequestHandler
			body    string
			next    engine.Next // after the answer
		}{
			"time-out of the handler": {func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") }, "", engine.CloseLinger},
			"it had read":             {func(ctx *sluice.RequestCtx) { ctx.RequestBodyStream().Read(make([]byte, 1)); ctx.TimeoutError("late") }, "1\r\na\r\n", engine.CloseLinger},
			"time-out of the drain":   {func(*sluice.RequestCtx) {}, "", engine.Read},
		} {
			s := quietServer(c.handler)
			s.StreamRequestBody = true
			conn := &http1test.Conn{}
			p := conn.Open(acceptorOf(s))
			next := conn.Feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\n"+head+"\r\n\r\n"+c.body))
			if next != c.next || len(answeredCodes(string(conn.Sent))) != 1 {
				t.Errorf("%s, %s: %v after %q", name, head, next, conn.Sent)
			}
			if next == engine.Read {
				if out, next := p.TimedOut(nil); next != engine.CloseLinger || len(out) > 0 {
					t.Errorf("%s, %s: then %v, %q", name, head, next, out)
				}
			}
			p.Closed(nil)
		}
	}
}

// TestFlushWithoutTheBody: after a response that has begun without it, the body that waits
// for 100-continue is not asked for, and the connection ends.
func TestFlushWithoutTheBody(t *testing.T) {
	s := quietServer(func(ctx *sluice.RequestCtx) {
		ctx.SetBodyString("a")
		_ = ctx.Flush()
	})
	s.StreamRequestBody = true
	sent, last := (&http1test.Conn{}).Converse(t, acceptorOf(s), []byte("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"))
	const want = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n"
	if sent != want || last != engine.CloseLinger {
		t.Errorf("%q, %v", sent, last)
	}
}

// TestFlushWithTrailers: the length that a handler has set does not limit a body with trailers.
func TestFlushWithTrailers(t *testing.T) {
	s := quietServer(func(ctx *sluice.RequestCtx) {
		_ = ctx.Response.Header.SetTrailer("X-Sum")
		ctx.Response.Header.Set("X-Sum", "3")
		ctx.Response.Header.SetContentLength(2)
		_ = ctx.Flush()
		ctx.SetBodyString("abc")
	})
	sent, _ := (&http1test.Conn{}).Converse(t, acceptorOf(s), []byte(simpleGet))
	if !strings.HasSuffix(sent, "\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n") || strings.Contains(sent, "Content-Length") {
		t.Errorf("%q", sent)
	}
}

// TestTrailerNamesAreKept: a server that keeps names keeps those of trailer fields, too.
func TestTrailerNamesAreKept(t *testing.T) {
	for _, isStreaming := range []bool{false, true} {
		for _, keeps := range []bool{false, true} {
			s := quietServer(func(ctx *sluice.RequestCtx) {
				ctx.PostBody()
				for name := range ctx.Request.Header.Trailers() {
					ctx.WriteString(string(name) + "=" + string(ctx.Request.Header.PeekBytes(name)) + ";")
				}
				ctx.WriteString(string(ctx.Request.Header.Peek("x-sum")))
			})
			s.DisableHeaderNamesNormalizing, s.StreamRequestBody = keeps, isStreaming
			want := "X-Sum=1;X-More=2;1"
			if keeps {
				want = "x-sum=1;x-more=2;1"
			}
			head := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n"
			if got := converse(t, s, []byte(head+"0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n")); !strings.HasSuffix(got, "\r\n\r\n"+want) {
				t.Errorf("stream=%v: %q, want %q", isStreaming, got, want)
			}
		}
	}
}

// TestForbiddenTrailers: fields that a trailer section must not contain are dropped (RFC 9110
// section 6.5.1).
func TestForbiddenTrailers(t *testing.T) {
	for _, isStreaming := range []bool{false, true} {
		s := quietServer(func(ctx *sluice.RequestCtx) {
			ctx.PostBody()
			for name := range ctx.Request.Header.Trailers() {
				fmt.Fprintf(ctx, "%s=%s;", name, ctx.Request.Header.PeekBytes(name))
			}
			fmt.Fprintf(ctx, "%s", ctx.Host())
		})
		s.StreamRequestBody = isStreaming
		head := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		if got := converse(t, s, []byte(head+"0\r\nHost: other\r\nX: 1\r\nContent-Length: 5\r\nAuthorization: a\r\n\r\n")); !strings.HasSuffix(got, "\r\n\r\nX=1;h") {
			t.Errorf("stream=%v: %q", isStreaming, got)
		}
	}
}
