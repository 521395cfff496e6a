package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestLargeChunksAreNotAwaited: a chunk by which the body will be too large is
// refused as soon as its size is known.
func TestLargeChunksAreNotAwaited(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{MaxRequestBodySize: 100, Handler: answering("x")})
		for _, test := range []struct {
			name, chunks string
			status       int
		}{
			{"the largest", "7FFFFFFFFFFFFFFF\r\n", 413},
			{"of more than 63 bits", "FFFFFFFFFFFFFFFF\r\n", 400},
			{"one byte more", "65\r\n", 413},
			{"with an extension", "65;a=b\r\n", 413},
			{"the second", "63\r\n" + strings.Repeat("x", 99) + "\r\n2\r\n", 413},
			{"all that may be", "63\r\n" + strings.Repeat("x", 99) + "\r\n1\r\nx\r\n0\r\n\r\n", 200},
		} {
			p := r.Dial()
			p.Send(harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + test.chunks)
			if a := p.Answer("POST"); a.StatusCode != test.status {
				t.Errorf("%s: %d, want %d", test.name, a.StatusCode, test.status)
			}
		}
	})
}

// TestLargeChunksOfResponses is the same for clients: the server sends nothing
// behind the size of the chunk, and keeps the connection open.
func TestLargeChunksOfResponses(t *testing.T) {
	for _, first := range []string{"", "2\r\nhe\r\n"} {
		for _, size := range []string{"7FFFFFFFFFFFFFFF", "65"} {
			for _, isStream := range []bool{false, true} {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					c, err := ln.Accept()
					if err == nil {
						_, _ = c.Read(make([]byte, 1024)) // the request
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+first+size+"\r\n")
						_, err = io.Copy(io.Discard, c)
						c.Close()
					}
					ended <- err
				}()
				client := &sluice.Client{MaxResponseBodySize: 100, StreamResponseBody: isStream, ReadTimeout: harness.Patience}
				var resp sluice.Response
				var req sluice.Request
				req.SetRequestURI("http://" + ln.Addr().String())
				err = client.Do(&req, &resp)
				if isStream && err == nil {
					_, err = io.Copy(io.Discard, resp.BodyStream())
				}
				if !errors.Is(err, sluice.ErrBodyTooLarge) {
					t.Errorf("%q, %s, stream %v: %v", first, size, isStream, err)
				}
				resp.Reset()
				client.CloseIdleConnections()
				ln.Close()
				<-ended
			}
		}
	}
}

// TestAnnouncedStreamsAreNotCollected: of a streamed body that is known to be too
// large nothing is awaited.
func TestAnnouncedStreamsAreNotCollected(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{MaxRequestBodySize: 100, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBody(ctx.PostBody())
		}})
		p := r.Dial()
		p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 101"))
		if a := p.Answer("POST"); a.Body != sluice.ErrBodyTooLarge.Error() {
			t.Errorf("%q", a.Body)
		}
	})
}

// TestStatusesThatSayWhatIsNot: 1xx is no answer, 101 needs somebody who takes
// the connection over, and CONNECT somebody who knows of it.
func TestStatusesThatSayWhatIsNot(t *testing.T) {
	const connect = "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"
	for _, flushes := range []bool{false, true} {
		harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
			r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				var status int
				if _, err := fmt.Sscan(string(ctx.Request.Header.Peek("X-Status")), &status); err != nil {
					status = 404
				}
				ctx.Error("the handler's", status)
				if string(ctx.Request.Header.Peek("X-Hijack")) != "" {
					ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "tunnel") })
				}
				if flushes {
					_ = ctx.Flush()
				}
			}})
			for _, test := range []struct {
				script string
				want   int
				closes bool
			}{
				{harness.Request("GET / HTTP/1.1", "X-Status: 100"), 500, false},
				{harness.Request("GET / HTTP/1.1", "X-Status: 101"), 500, false},
				{harness.Request("GET / HTTP/1.1", "X-Status: 102"), 500, false},
				{harness.Request("GET / HTTP/1.1", "X-Status: 103"), 500, false},
				{harness.Request("GET / HTTP/1.1", "X-Status: 404"), 404, false},
				{harness.Request("GET / HTTP/1.1", "X-Status: 101", "X-Hijack: 1"), 101, true},
				{connect, 501, false},
				{strings.Replace(connect, "\r\n\r\n", "\r\nX-Status: 405\r\n\r\n", 1), 405, false},
				{strings.Replace(connect, "\r\n\r\n", "\r\nX-Status: 502\r\n\r\n", 1), 502, false},
				// What a client sends behind that is for the tunnel.
				{strings.Replace(connect, "\r\n\r\n", "\r\nX-Status: 200\r\n\r\n", 1) + harness.Get("/"), 200, true},
				{strings.Replace(connect, "\r\n\r\n", "\r\nX-Status: 200\r\nX-Hijack: 1\r\n\r\n", 1), 200, true},
			} {
				if flushes && test.want == 200 && !strings.HasSuffix(test.script, harness.Get("/")) {
					continue // the tunnel would follow within a body
				}
				p := r.Dial()
				p.Send(test.script)
				a := p.Answer("GET")
				if a.StatusCode != test.want {
					t.Errorf("%q: %d, want %d", test.script, a.StatusCode, test.want)
				}
				if !test.closes {
					if again := p.Get("/"); again.StatusCode != 404 {
						t.Errorf("%q, the next one: %d", test.script, again.StatusCode)
					}
				} else if rest := p.Rest(); strings.Contains(rest, "HTTP/1.1") {
					t.Errorf("%q: then %q", test.script, rest)
				}
			}
		})
	}
}

// TestErrorHandlerSeesWholeHeads: of a head that is not understood, an ErrorHandler
// sees nothing.
func TestErrorHandlerSeesWholeHeads(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{
			Handler:            func(*sluice.RequestCtx) {},
			MaxRequestBodySize: 10,
			ErrorHandler: func(ctx *sluice.RequestCtx, err error) {
				fmt.Fprintf(ctx, "%s %s %q", ctx.Host(), ctx.URI(), ctx.Request.Header.String())
			},
		})
		const none = ` http:/// "GET / HTTP/1.1\r\n\r\n"`
		for head, want := range map[string]string{
			harness.Request("GET /path HTTP/1.1", "User-Agent: u", "X : 1"):                       none,
			harness.Request("POST /path HTTP/1.1", "X-Long: "+harness.Large, "Content-Length: x"): none,
			"GET /path HTTP/1.1\r\nUser-Agent: u\r\n\r\n":                                         none,
			"GET /path HTTP/9.1\r\nHost: h\r\n\r\n":                                               none,
			"\x01\r\n\r\n":                                                                        none,
			harness.Request("POST /path HTTP/1.1", "Content-Length: 11"):                          `h http://h/path "POST /path HTTP/1.1\r\nHost: h\r\nContent-Type: application/octet-stream\r\nContent-Length: 11\r\n\r\n"`,
		} {
			p := r.Dial()
			p.Send(head)
			if got := p.Answer("GET"); got.Body != want {
				t.Errorf("%.80q: %.300s", head, got.Body)
			}
		}
	})
}
