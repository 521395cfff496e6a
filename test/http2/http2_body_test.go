package http2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// TestHTTP2Bodies: buffered and streamed bodies that arrive in pieces, with trailer
// fields.
func TestHTTP2Bodies(t *testing.T) {
	for _, isStreamed := range []bool{false, true} {
		t.Run(fmt.Sprint("streamed ", isStreamed), func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				r := harness.ServeHTTP2(t, n, &sluice.Server{StreamRequestBody: isStreamed, Handler: func(ctx *sluice.RequestCtx) {
					var body []byte
					var err error
					if isStreamed {
						body, err = io.ReadAll(ctx.RequestBodyStream())
					} else {
						body = ctx.PostBody()
					}
					fmt.Fprintf(ctx, "%d %v %v %s", len(body), string(body) == bulk, err, ctx.Request.Header.Peek("X-Sum"))
				}})
				body, w := io.Pipe()
				req, _ := http.NewRequest("POST", n.Scheme()+"://h/", body)
				req.Trailer = http.Header{"X-Sum": {"7"}}
				go func() {
					for _, piece := range []string{bulk[:1], bulk[1:70_000], bulk[70_000:]} {
						_, _ = io.WriteString(w, piece)
					}
					w.Close()
				}()
				resp, err := r.HTTP2Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := readAll(t, resp), "320000 true <nil> 7"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

// TestHTTP2Echo: a body is sent back while it arrives.
func TestHTTP2Echo(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.Response.ImmediateHeaderFlush = true
			ctx.SetBodyStream(struct{ io.Reader }{ctx.RequestBodyStream()}, -1)
		}})
		body, w := io.Pipe()
		resp, err := r.HTTP2Client().Post(n.Scheme()+"://h/", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			text := fmt.Sprint("message ", i)
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != text {
				t.Fatalf("%q %v", got, err)
			}
		}
		w.Close()
		readAll(t, resp)
	})
}

// TestHTTP2Forms: forms of both kinds.
func TestHTTP2Forms(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			fmt.Fprintf(ctx, "%s", ctx.FormValue("a"))
			if file, err := ctx.FormFile("f"); err == nil {
				fmt.Fprintf(ctx, " %s %d", file.Filename, file.Size)
			}
		}})
		client := r.HTTP2Client()
		resp, err := client.Post(n.Scheme()+"://h/", "application/x-www-form-urlencoded", strings.NewReader("a=1"))
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); got != "1" {
			t.Errorf("%q", got)
		}
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		_ = w.WriteField("a", "2")
		part, _ := w.CreateFormFile("f", "name")
		_, _ = io.WriteString(part, bulk)
		w.Close()
		if resp, err = client.Post(n.Scheme()+"://h/", w.FormDataContentType(), &form); err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); got != "2 name 320000" {
			t.Errorf("%q", got)
		}
	})
}

// TestHTTP2Expect: 100-continue and the callbacks between head and body.
func TestHTTP2Expect(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(s *sluice.Server)
		head []string
		want string
	}{
		"buffered": {func(*sluice.Server) {}, []string{"expect", "100-continue"}, "100 200 body ."},
		"streamed": {func(s *sluice.Server) { s.StreamRequestBody = true }, []string{"expect", "100-continue"}, "100 200 body ."},
		"no expectation": {func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { return sluice.RequestConfig{} }
			s.ContinueHandler = func(*sluice.RequestHeader) bool { return false }
		}, nil, "200 body ."},
		"refused": {func(s *sluice.Server) {
			s.ContinueHandler = func(*sluice.RequestHeader) bool { return false }
		}, []string{"expect", "100-continue"}, "417 Expectation Failed ."},
		"refused with a status": {func(s *sluice.Server) {
			s.ExpectHandler = func(ctx *sluice.RequestCtx) int { ctx.SetBodyString("no"); return 403 }
		}, []string{"expect", "100-continue"}, "403 no ."},
		"limit of HeaderReceived": {func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { return sluice.RequestConfig{MaxRequestBodySize: 3} }
		}, nil, "413 the body is larger than the limit of 3 bytes ."},
		"announced": {func(s *sluice.Server) { s.MaxRequestBodySize = 3 }, []string{"content-length", "4"}, "413 the body is larger than the limit of 3 bytes ."},
		"size":      {func(s *sluice.Server) { s.MaxRequestBodySize = 3 }, nil, "413 the body is larger than the limit of 3 bytes ."},
		"memory":    {func(s *sluice.Server) { s.MaxBodyMemory = 3 }, nil, "503 no memory left for request bodies ."},
		"GetOnly":   {func(s *sluice.Server) { s.GetOnly = true }, nil, "405 a method other than GET was used where only GET is served ."},
		"panic": {func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { panic("x") }
		}, nil, "500 internal server error ."},
		"panic about an expectation": {func(s *sluice.Server) {
			s.ContinueHandler = func(*sluice.RequestHeader) bool { panic("x") }
		}, []string{"expect", "100-continue"}, "500 internal server error ."},
		"announced, with HeaderReceived": {func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { return sluice.RequestConfig{} }
			s.MaxRequestBodySize = 3
		}, []string{"content-length", "4"}, "413 the body is larger than the limit of 3 bytes ."},
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					body := ctx.PostBody()
					if stream := ctx.RequestBodyStream(); stream != nil {
						body, _ = io.ReadAll(stream)
					}
					_, _ = ctx.Write(body)
				}}
				test.set(s)
				r := harness.ServeHTTP2(t, n, s)
				f := r.Frames()
				f.Head(1, "POST", "/", false, test.head...)
				var got string
				if len(test.head) > 0 && test.head[0] == "expect" && strings.HasPrefix(test.want, "100") {
					if frame, ok := f.Next().(*http2.MetaHeadersFrame); !ok || frame.PseudoValue("status") != "100" {
						t.Fatalf("%v", frame)
					}
					got = "100 "
				}
				f.Data(1, "body", true)
				if got += f.Describe(); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestHTTP2Refusals: heads that are too large are answered as in HTTP/1.1.
func TestHTTP2Refusals(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		failures := make(chan error, 1)
		r := harness.ServeHTTP2(t, n, &sluice.Server{ReadBufferSize: 4096, LogAllErrors: true, Handler: func(*sluice.RequestCtx) {}, ErrorHandler: func(ctx *sluice.RequestCtx, err error) {
			failures <- err
			if ctx.StreamID() == 0 || string(ctx.Request.Header.Protocol()) != "HTTP/2.0" {
				t.Errorf("%v: ErrorHandler sees stream %d of %s", err, ctx.StreamID(), ctx.Request.Header.Protocol())
			}
			ctx.SetBodyString("refused")
		}})
		f := r.Frames()
		for i, test := range []struct {
			want string
			head func(stream uint32)
		}{
			{"431 refused .", func(stream uint32) { f.Head(stream, "GET", "/", true, "x-large", strings.Repeat("x", 5000)) }},
			{"414 refused .", func(stream uint32) { f.Head(stream, "GET", "/"+strings.Repeat("x", 5000), true) }},
			{"431 .", func(stream uint32) { f.Head(stream, "HEAD", "/", true, "x-large", strings.Repeat("x", 5000)) }},
		} {
			test.head(uint32(2*i + 1))
			if got := f.Describe(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if err := harness.Receive(t, failures); !errors.Is(err, sluice.ErrSmallReadBuffer) {
				t.Errorf("%s: ErrorHandler got %v", test.want, err)
			}
			harness.Eventually(t, "it is logged", func() bool { return strings.Count(r.Log.String(), "error when serving connection") == i+1 })
		}
	})
}

// TestHTTP2SlowBodies: bodies that do not arrive are answered 408, and a handler that
// reads gets the time-out.
func TestHTTP2SlowBodies(t *testing.T) {
	for name, set := range map[string]func(s *sluice.Server){
		"ReadTimeout": func(s *sluice.Server) { s.ReadTimeout = time.Second },
		"HeaderReceived": func(s *sluice.Server) {
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig {
				return sluice.RequestConfig{ReadTimeout: 50 * time.Millisecond}
			}
		},
		"streamed": func(s *sluice.Server) {
			s.ReadTimeout = time.Second
			s.StreamRequestBody = true
		},
		"SetReadDeadline": func(s *sluice.Server) {
			s.StreamRequestBody = true
			h := s.Handler
			s.Handler = func(ctx *sluice.RequestCtx) { _ = ctx.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); h(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				t.Parallel() // they wait
				s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					_, err := io.ReadAll(ctx.RequestBodyStream())
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%v", err)
					}
					ctx.Error("late", 408)
				}}
				set(s)
				r := harness.ServeHTTP2(t, n, s)
				connect := r.Connect
				r.Connect = func() (net.Conn, error) {
					c, err := connect()
					return &corkedConn{Conn: c}, err // ReadTimeout is also that of the preface, and of a handshake
				}
				f := r.Frames()
				f.Head(1, "POST", "/", false)
				f.Data(1, "b", false)
				if got := f.Describe(); !strings.HasPrefix(got, "408 ") {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

// A corkedConn writes what it has got at once, before a read.
type corkedConn struct {
	net.Conn
	out []byte
}

func (c *corkedConn) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	return len(p), nil
}

func (c *corkedConn) Read(p []byte) (int, error) {
	if len(c.out) > 0 {
		if _, err := c.Conn.Write(c.out); err != nil {
			return 0, err
		}
		c.out = nil
	}
	return c.Conn.Read(p)
}

// TestHTTP2ClientGone: the handler learns that its stream was reset or its connection
// has ended, whatever it does.
func TestHTTP2ClientGone(t *testing.T) {
	for name, wait := range map[string]func(ctx *sluice.RequestCtx){
		"Done": func(ctx *sluice.RequestCtx) { <-ctx.Done() },
		"read": func(ctx *sluice.RequestCtx) {
			if _, err := io.ReadAll(ctx.RequestBodyStream()); err != io.ErrUnexpectedEOF {
				panic(err)
			}
		},
		"Flush": func(ctx *sluice.RequestCtx) {
			for ctx.Flush() == nil {
				ctx.WriteString(bulk)
			}
		},
	} {
		for _, end := range []string{"reset", "close"} {
			t.Run(name+" "+end, func(t *testing.T) {
				harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
					begun, ended := make(chan struct{}), make(chan error, 1)
					r := harness.ServeHTTP2(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
						close(begun)
						wait(ctx)
						<-ctx.Done()
						ended <- ctx.Err()
					}})
					f := r.Frames()
					f.Head(1, "POST", "/", false)
					<-begun
					if end == "reset" {
						f.Must(f.WriteRSTStream(1, http2.ErrCodeCancel))
					} else {
						f.Conn.Close()
					}
					if err := harness.Receive(t, ended); err == nil {
						t.Error("Err is nil")
					}
				})
			})
		}
	}
}
