package http2_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// TestHTTP2ConnectionEnds: whatever ends a connection gracefully, its request is answered
// and GOAWAY is sent.
func TestHTTP2ConnectionEnds(t *testing.T) {
	for name, set := range map[string]func(s *sluice.Server){
		"SetConnectionClose": func(s *sluice.Server) {
			s.Handler = func(ctx *sluice.RequestCtx) { ctx.SetConnectionClose() }
		},
		"DisableKeepalive":     func(s *sluice.Server) { s.DisableKeepalive = true },
		"MaxRequestsPerConn":   func(s *sluice.Server) { s.MaxRequestsPerConn = 1 },
		"MaxKeepaliveDuration": func(s *sluice.Server) { s.MaxKeepaliveDuration = 1 },
		"IdleTimeout":          func(s *sluice.Server) { s.IdleTimeout = 50 * time.Millisecond },
		"CloseOnNextResponse": func(s *sluice.Server) {
			s.Handler = func(*sluice.RequestCtx) { s.Control().CloseOnNextResponse() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}}
				set(s)
				f := harness.ServeHTTP2(t, n, s).Frames()
				f.Head(1, "GET", "/", true)
				statuses, goAways := 0, 0
				for frame := f.Next(); frame != nil; frame = f.Next() {
					switch frame := frame.(type) {
					case *http2.MetaHeadersFrame:
						statuses++
					case *http2.GoAwayFrame:
						if goAways++; frame.ErrCode != http2.ErrCodeNo {
							t.Errorf("%v", frame)
						}
					}
				}
				if statuses != 1 || goAways == 0 {
					t.Errorf("%d answers, %d GOAWAY", statuses, goAways)
				}
			})
		})
	}
}

// TestHTTP2Idle: a connection that never makes a request ends, too.
func TestHTTP2Idle(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		f := harness.ServeHTTP2(t, n, &sluice.Server{IdleTimeout: 50 * time.Millisecond, Handler: func(*sluice.RequestCtx) {}}).Frames()
		if got := f.Describe(); got != "GOAWAY end" {
			t.Error(got)
		}
	})
}

// TestHTTP2Shutdown: clients at full rate lose no request.
func TestHTTP2Shutdown(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }})
		var clients sync.WaitGroup
		const conns = 4
		isBusy := make(chan struct{}, conns) // a value for each connection that has served some
		for range conns {
			var served atomic.Int64
			transport := &http2.Transport{}
			c := r.Dial()
			if secure, ok := c.Conn.(interface{ Handshake() error }); ok {
				if err := secure.Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			conn, err := transport.NewClientConn(c.Conn)
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				clients.Go(func() {
					for conn.ReserveNewRequest() {
						req, _ := http.NewRequest("GET", n.Scheme()+"://h/", nil)
						resp, err := conn.RoundTrip(req)
						if err != nil {
							if text := err.Error(); !strings.Contains(text, "graceful shutdown GOAWAY") && !strings.Contains(text, "client conn not usable") {
								t.Errorf("a request was lost: %v", err)
							}
							return // not sent, or refused: a client repeats it elsewhere
						}
						if resp.StatusCode != 200 || readAll(t, resp) != "hello" {
							t.Errorf("%v", resp)
						}
						if served.Add(1) == 50 {
							isBusy <- struct{}{}
						}
					}
				})
			}
		}
		for range conns {
			harness.Receive(t, isBusy)
		}
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := r.Server.ShutdownWithContext(ctx); err != nil {
			t.Error(err)
		}
		clients.Wait()
	})
}

// TestHTTP2ShutdownWaits: a running request is told, and answered.
func TestHTTP2ShutdownWaits(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		begun := make(chan struct{})
		r := harness.ServeHTTP2(t, n, &sluice.Server{CloseOnShutdown: true, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/" {
				close(begun)
				<-ctx.Done()
			}
			ctx.SetBodyString("end")
		}})
		idle := r.Frames()
		idle.Head(1, "GET", "/idle", true)
		idle.Describe()
		f := r.Frames()
		f.Head(1, "GET", "/", true)
		<-begun
		go r.Server.Shutdown()
		if got := idle.Describe(); !strings.HasPrefix(got, "GOAWAY") || !strings.HasSuffix(got, "end") {
			t.Errorf("idle: %s", got)
		}
		if got := f.Describe(); !strings.HasSuffix(got, "200 end .") {
			t.Errorf("busy: %s", got)
		}
	})
}

// TestHTTP2States: ConnState and the Meter.
func TestHTTP2States(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		var mu sync.Mutex
		var states []sluice.ConnState
		release := make(chan struct{})
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/wait" {
				<-release
			}
			ctx.SetStatusCode(404)
		}, ConnState: func(_ net.Conn, state sluice.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, state)
		}}
		meter := &sluice.Meter{Accepted: new(atomic.Uint64), Done: new(atomic.Uint64), BytesRead: new(atomic.Uint64), BytesWritten: new(atomic.Uint64)}
		meter.Status[3] = new(atomic.Uint64)
		s.Control().Meter = meter
		r := harness.ServeHTTP2(t, n, s)
		f := r.Frames()
		f.Head(1, "GET", "/wait", true)
		harness.Eventually(t, "the request is in flight", func() bool { return meter.InFlight() == 1 })
		harness.Eventually(t, "the stream is counted", func() bool { return meter.HTTP2() == sluice.HTTP2Stats{Connections: 1, Streams: 1} })
		close(release)
		f.Describe()
		harness.Eventually(t, "no request is in flight", func() bool { return meter.InFlight() == 0 })
		seen := func(want *regexp.Regexp) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				return want.MatchString(fmt.Sprint(states))
			}
		}
		harness.Eventually(t, "idle", seen(regexp.MustCompile(`^.new( active idle)+.$`))) // the preface may come alone
		f.Conn.Close()
		harness.Eventually(t, "closed", seen(regexp.MustCompile(`^.new( active idle)+ closed.$`)))
		harness.Eventually(t, "counted", func() bool {
			return meter.Status[3].Load() == 1 && meter.Accepted.Load() == 1 && meter.Done.Load() == 1 && meter.BytesRead.Load() > 40 && meter.BytesWritten.Load() > 40
		})
	})
}

// TestHTTP2Gauges: EngineStats has the connections and streams, and those of HTTP/1.1 do
// not count.
func TestHTTP2Gauges(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		release := make(chan struct{})
		var begun atomic.Int64
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { begun.Add(1); <-release }}
		r := harness.ServeHTTP2(t, n, s)
		shows := func(what string, want sluice.HTTP2Stats) {
			t.Helper()
			harness.Eventually(t, what, func() bool { return s.EngineStats().HTTP2 == want })
		}
		f := r.Frames()
		f.Head(1, "GET", "/", true)
		f.Head(3, "GET", "/", true)
		idle := r.Frames()
		shows("two streams on one of two connections", sluice.HTTP2Stats{Connections: 2, Idle: 1, Streams: 2})
		harness.Eventually(t, "both handlers run", func() bool { return begun.Load() == 2 }) // a stream without one ends with its reset
		f.Must(f.WriteRSTStream(3, http2.ErrCodeCancel))
		shows("a reset", sluice.HTTP2Stats{Connections: 2, Idle: 1, Streams: 2, Resets: 1}) // until its handler returns
		close(release)
		f.Describe()
		shows("idle", sluice.HTTP2Stats{Connections: 2, Idle: 2, Resets: 1})
		f.Conn.Close()
		idle.Conn.Close()
		shows("closed", sluice.HTTP2Stats{Resets: 1})
	})
}

// TestHTTP2Streams: streams run at the same time, and those beyond the limit are refused.
func TestHTTP2Streams(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		release := make(chan struct{})
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/wait" {
				<-release
			}
		}}
		s.HTTP2.MaxConcurrentStreams = 2
		f := harness.ServeHTTP2(t, n, s).Frames()
		f.Head(1, "GET", "/wait", true)
		f.Head(3, "GET", "/", true)
		if got := f.Describe(); got != "200 ." {
			t.Errorf("beside a handler that waits: %s", got)
		}
		f.Head(5, "GET", "/wait", true)
		f.Head(7, "GET", "/", true)
		if got := f.Describe(); got != "REFUSED_STREAM" {
			t.Errorf("beyond the limit: %s", got)
		}
		close(release)
		for range 2 {
			if got := f.Describe(); got != "200 ." {
				t.Error(got)
			}
		}
	})
}

// TestHTTP2BlockedHandler: of 100 streams, one whose handler blocks delays no other one.
func TestHTTP2BlockedHandler(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		release := make(chan struct{})
		f := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/wait" {
				<-release
			}
			ctx.SetBody(ctx.Path())
		}}).Frames()
		f.Head(1, "GET", "/wait", true)
		for i := range uint32(99) {
			f.Head(2*i+3, "GET", "/", true)
		}
		for i := range 99 {
			if got := f.Describe(); got != "200 / ." {
				t.Fatalf("answer %d: %s", i, got)
			}
		}
		close(release)
		if got := f.Describe(); got != "200 /wait ." {
			t.Error(got)
		}
	})
}

// TestHTTP2ConnLimit: limits of connections are those of HTTP/1.1.
func TestHTTP2ConnLimit(t *testing.T) {
	for name, set := range map[string]func(*sluice.Server){
		"Concurrency":   func(s *sluice.Server) { s.Concurrency = 1 },
		"MaxConnsPerIP": func(s *sluice.Server) { s.MaxConnsPerIP = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}}
			set(s)
			r := harness.ServeHTTP2(t, harness.OverTCP(), s)
			f := r.Frames()
			f.Head(1, "GET", "/", true)
			if got := f.Describe(); got != "200 ." {
				t.Error(got)
			}
			if got := fmt.Sprint(r.Dial().Answer("GET").StatusCode); got != "503" && got != "429" {
				t.Error(got)
			}
		})
	}
}

// TestHTTP2Switches: what decides whether TLS offers HTTP/2.
func TestHTTP2Switches(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(s *sluice.Server)
		want string
	}{
		"on":                     {func(*sluice.Server) {}, "h2"},
		"off":                    {func(s *sluice.Server) { s.HTTP2.Disable = true }, "http/1.1"},
		"a TLSConfig without it": {func(s *sluice.Server) { s.TLSConfig.NextProtos = []string{"http/1.1"} }, "http/1.1"},
		"NextProto":              {func(s *sluice.Server) { s.NextProto("h2", func(net.Conn) error { return nil }) }, "h2"},
	} {
		t.Run(name, func(t *testing.T) {
			n := harness.OverTLS(t, harness.OverTCP(), "h2", "http/1.1")
			n.Secure.NextProtos = nil
			s := &sluice.Server{TLSConfig: n.Secure, Handler: func(*sluice.RequestCtx) {}}
			test.set(s)
			r := harness.Serve(t, n, s)
			c := r.Dial()
			if got := negotiated(t, c.Conn); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestHTTP2OldTLS: a client without TLS 1.2 is not offered HTTP/2.
func TestHTTP2OldTLS(t *testing.T) {
	for version, want := range map[uint16]string{tls.VersionTLS11: "http/1.1", tls.VersionTLS12: "h2"} {
		n := harness.OverTLS(t, harness.OverTCP(), "h2", "http/1.1")
		n.Secure.NextProtos, n.Secure.MinVersion = nil, tls.VersionTLS11
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(*sluice.RequestCtx) {}})
		raw, err := net.Dial("tcp", r.Ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		client := &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, NextProtos: []string{"h2", "http/1.1"}}
		if got := negotiated(t, tls.Client(raw, client)); got != want {
			t.Errorf("TLS %x: %q, want %q", version, got, want)
		}
	}
}

// negotiated returns the protocol that ALPN has chosen.
func negotiated(t *testing.T, c net.Conn) string {
	t.Helper()
	secure := c.(*tls.Conn)
	if err := secure.Handshake(); err != nil {
		t.Fatal(err)
	}
	return secure.ConnectionState().NegotiatedProtocol
}

// TestHTTP2ServeConn: one connection, and its error.
func TestHTTP2ServeConn(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(f *harness.Framer)
		want bool // an error
	}{
		"close":     {func(f *harness.Framer) { f.Conn.Close() }, false},
		"violation": {func(f *harness.Framer) { f.Data(9, "x", false); f.Describe() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			kept := make(chan net.Conn, 1)
			s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				kept <- ctx.Conn()
				ctx.SetBodyString("hello")
			}}
			client, server := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(server) }()
			r := &harness.Rig{T: t, Connect: func() (net.Conn, error) { return client, nil }}
			defer client.Close()
			f := r.Frames()
			f.Head(1, "GET", "/", true)
			if got := f.Describe(); got != "200 hello ." {
				t.Error(got)
			}
			test.end(f)
			if err := harness.Receive(t, served); (err != nil) != test.want {
				t.Errorf("ServeConn: %v", err)
			}
			if err := (<-kept).Close(); err == nil {
				t.Error("the connection of a request that has ended can be closed")
			}
		})
	}
}

// TestHTTP2ServeConnWaits: ServeConn waits for all handlers of its connection, and
// returns the first error of several requests.
func TestHTTP2ServeConnWaits(t *testing.T) {
	const handlers = 8
	running := make(chan struct{}, handlers)
	var ended atomic.Int32
	s := &sluice.Server{MaxRequestBodySize: 1, Handler: func(ctx *sluice.RequestCtx) {
		running <- struct{}{}
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond) // a handler that notices late
		ended.Add(1)
	}}
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(server) }()
	f := (&harness.Rig{T: t, Connect: func() (net.Conn, error) { return client, nil }}).Frames()
	go io.Copy(io.Discard, client)
	for i := range uint32(handlers) {
		f.Head(4*i+1, "GET", "/", true)
		f.Head(4*i+3, "POST", "/", false, "content-length", "9")
	}
	for range handlers {
		harness.Receive(t, running)
	}
	f.Conn.Close()
	if err := harness.Receive(t, served); !errors.Is(err, sluice.ErrBodyTooLarge) {
		t.Errorf("ServeConn: %v", err)
	}
	if n := ended.Load(); n != handlers {
		t.Errorf("%d of %d handlers have returned", n, handlers)
	}
}

// TestHTTP2PrefaceInPieces: the preface may arrive in any pieces, and a request of
// HTTP/1.1 may look like its beginning.
func TestHTTP2PrefaceInPieces(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Request.Header.Protocol()) }}
		r := harness.ServeHTTP2(t, n, s)
		for cut := range len(http2.ClientPreface) + 9 {
			c := &cutConn{cut: cut}
			f := (&harness.Rig{T: t, Connect: func() (_ net.Conn, err error) { c.Conn, err = r.Connect(); return c, err }}).Frames()
			f.Head(1, "GET", "/", true)
			if got := f.Describe(); got != "200 HTTP/2.0 ." {
				t.Errorf("cut at %d: %s", cut, got)
			}
			f.Conn.Close()
		}
		for _, start := range []string{"PRI * HTTP/1.1", "PRI / HTTP/2.0", "PRI * HTTP/2.1", "GET * HTTP/2.0"} {
			p := r.Dial()
			p.Send(harness.Request(start))
			if raw := p.Rest(); !strings.HasPrefix(raw, "HTTP/1.1 4") && !strings.HasPrefix(raw, "HTTP/1.1 5") {
				t.Errorf("%s: %q", start, raw)
			}
		}
	})
}

// TestInvalidPreface: a first line that has neither a method nor a version of HTTP is a
// preface that is wrong (RFC 9113 section 3.4). Other malformed lines are requests of
// HTTP/1.1, also where no HTTP/2 is spoken, and after a first request. ConnState is told the
// same for all of them.
func TestInvalidPreface(t *testing.T) {
	const http1, goAway = "HTTP/1.1 400 ", "\x00\x00\x00\x00\x00\x00\x01" // PROTOCOL_ERROR
	for _, c := range []struct {
		name, sent, want string
		isOff            bool
	}{
		{"no protocol", "INVALID CONNECTION PREFACE\r\n\r\n", goAway, false},
		{"before a right preface", "NO WORD WAS\r\n" + http2.ClientPreface, goAway, false},
		{"a word before a request", "NO GET / HTTP/1.1\r\n\r\n", http1, false},
		{"a usual method", "GET / HTTX/1.1\r\n\r\n", http1, false},
		{"a version of HTTP", "NO WORD HTTP/x\r\n\r\n", http1, false},
		{"a word", "INVALID\r\n\r\n", http1, false},
		{"after a request", harness.Get("/") + "INVALID CONNECTION PREFACE\r\n\r\n", http1, false},
		{"without HTTP/2", "INVALID CONNECTION PREFACE\r\n\r\n", http1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
				states := make(chan sluice.ConnState, 10)
				r := harness.Serve(t, n, &sluice.Server{
					Handler:   func(*sluice.RequestCtx) {},
					HTTP2:     sluice.HTTP2Config{Disable: c.isOff},
					ConnState: func(_ net.Conn, state sluice.ConnState) { states <- state },
				})
				for _, cut := range []int{0, len(c.sent)} {
					conn := &cutConn{cut: cut}
					var err error
					if conn.Conn, err = r.Connect(); err != nil {
						t.Fatal(err)
					}
					p := harness.NewPeer(t, conn)
					_, _ = io.WriteString(conn, c.sent) // the server may have closed the connection
					// Of a line in pieces, HTTP/1.1 says what is wrong before the rest is known.
					if got := p.Rest(); !strings.Contains(got, c.want) && (cut == 0 || !strings.Contains(got, http1)) {
						t.Errorf("cut at %d: %q, want %q", cut, got, c.want)
					}
					conn.Close()
					if last := beforeClosed(t, states); last != sluice.StateActive {
						t.Errorf("cut at %d: the connection is %v before it is closed", cut, last)
					}
				}
			})
		})
	}
}

// beforeClosed returns the state that a connection had when it was closed.
func beforeClosed(t *testing.T, states <-chan sluice.ConnState) (last sluice.ConnState) {
	for {
		state := harness.Receive(t, states)
		if state == sluice.StateClosed {
			return last
		}
		last = state
	}
}

// A cutConn sends the byte at cut and those before it each in a write of its own.
type cutConn struct {
	net.Conn
	cut int
}

func (c *cutConn) Write(p []byte) (n int, err error) {
	for c.cut > 0 && n < len(p) && err == nil {
		c.cut--
		_, err = c.Conn.Write(p[n : n+1])
		n++
	}
	if n < len(p) && err == nil {
		var m int
		m, err = c.Conn.Write(p[n:])
		n += m
	}
	return n, err
}

// TestHTTP2Stall: a client that opens no window gets a reset, and the handler goes on.
func TestHTTP2Stall(t *testing.T) {
	for name, set := range map[string]func(s *sluice.Server){
		"WriteTimeout": func(s *sluice.Server) { s.WriteTimeout = 50 * time.Millisecond },
		"StallTimeout": func(s *sluice.Server) { s.HTTP2.StallTimeout = 50 * time.Millisecond },
		"SetWriteDeadline": func(s *sluice.Server) {
			h := s.Handler
			s.Handler = func(ctx *sluice.RequestCtx) { _ = ctx.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); h(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				ended := make(chan struct{})
				s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					defer close(ended)
					for ctx.Flush() == nil {
						ctx.WriteString(bulk)
					}
				}}
				set(s)
				f := harness.ServeHTTP2(t, n, s).Frames(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
				f.Head(1, "GET", "/", true)
				if got := f.Describe(); got != "200 0123456789 CANCEL" {
					t.Error(got)
				}
				closed(t, "the handler", ended)
			})
		})
	}
}

// TestHTTP2MaxWorkers: handlers that wait for their clients leave room for others.
func TestHTTP2MaxWorkers(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{MaxWorkers: 2, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			if stream := ctx.RequestBodyStream(); stream != nil {
				_, _ = io.Copy(ctx, stream)
				return
			}
			ctx.SetBodyString("hello")
		}})
		f := r.Frames()
		for i := range uint32(5) {
			f.Head(2*i+1, "POST", "/", false)
		}
		f.Head(11, "GET", "/", true)
		if got := f.Describe(); got != "200 hello ." {
			t.Error(got)
		}
		for i := range uint32(5) {
			f.Data(2*i+1, "body", true)
			if got := f.Describe(); got != "200 body ." {
				t.Error(got)
			}
		}
	})
}
