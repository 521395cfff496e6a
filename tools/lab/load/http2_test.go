package load

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// http2Servers runs a test against Sluice and net/http, with event loops, with a
// goroutine per connection, and over TLS.
func http2Servers(t *testing.T, test func(t *testing.T, config Config, served *atomic.Int64)) {
	for _, server := range []string{"sluice", "net/http"} {
		for _, kind := range []string{"loops", "streams", "tls"} {
			if kind == "loops" && !hasLoops {
				continue
			}
			t.Run(server+"/"+kind, func(t *testing.T) {
				var served atomic.Int64
				config := Config{
					Network: "tcp", HTTP2: true, Request: []byte(getRequest), Connections: 3, Threads: 2, Depth: 5,
					Timeout: time.Minute, UsesStreams: kind == "streams",
				}
				if kind == "tls" {
					config.TLS = &tls.Config{InsecureSkipVerify: true}
				}
				if server == "sluice" {
					config.Address = serveSluice(t, config.TLS != nil, &served)
				} else {
					config.Address = serveNetHTTP(t, config.TLS != nil, &served)
				}
				test(t, config, &served)
			})
		}
	}
}

func serveSluice(t *testing.T, isTLS bool, served *atomic.Int64) string {
	t.Helper()
	s := &sluice.Server{Logger: log.New(io.Discard, "", 0), Handler: func(ctx *sluice.RequestCtx) {
		served.Add(1)
		ctx.Response.Header.Set("X-Protocol", string(ctx.Request.Header.Protocol()))
		if string(ctx.Path()) == "/large" {
			ctx.SetBodyString(strings.Repeat("x", 1_000_000))
			return
		}
		if status := ctx.QueryArgs().GetUintOrZero("status"); status > 0 {
			ctx.SetStatusCode(status)
		}
		ctx.SetBody(ctx.PostBody())
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		if !isTLS {
			ended <- s.Serve(ln)
			return
		}
		certificate, key, err := sluice.GenerateTestCertificate("localhost")
		if err != nil {
			ended <- err
			return
		}
		ended <- s.ServeTLSEmbed(ln, certificate, key)
	}()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func serveNetHTTP(t *testing.T, isTLS bool, served *atomic.Int64) string {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.URL.Path == "/large" {
			io.WriteString(w, strings.Repeat("x", 1_000_000))
			return
		}
		body, _ := io.ReadAll(r.Body)
		if r.URL.Query().Get("status") == "404" {
			w.WriteHeader(404)
		}
		w.Write(body)
	}))
	srv.Config.Protocols = &http.Protocols{}
	srv.Config.Protocols.SetHTTP2(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.EnableHTTP2 = true
	if isTLS {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// TestHTTP2: every request is sent and answered once, in each kind of loop.
func TestHTTP2(t *testing.T) {
	post := "POST /?status=404 HTTP/1.1\r\nHost: test\r\nX-Extra: some value\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("p", 300_000)
	for _, c := range []struct {
		name, request             string
		requests                  int64
		connections, depth        int
		status                    int
		leastRead, leastWritten   int64
		isHead, isOpen, isOnePerC bool
	}{
		{name: "one", request: getRequest, requests: 1, connections: 1, depth: 1, status: 200},
		{name: "many", request: getRequest, requests: 1003, connections: 3, depth: 7, status: 200},
		{name: "more streams than requests", request: getRequest, requests: 20, connections: 2, depth: 100, status: 200},
		{name: "more than the server permits", request: getRequest, requests: 1000, connections: 1, depth: 400, status: 200},
		{name: "large responses", request: "GET /large HTTP/1.1\r\nHost: test\r\n\r\n", requests: 40, connections: 2, depth: 5, status: 200, leastRead: 40_000_000},
		{name: "large requests", request: post, requests: 40, connections: 2, depth: 5, status: 404, leastRead: 12_000_000, leastWritten: 12_000_000},
		{name: "HEAD", request: "HEAD /large HTTP/1.1\r\nHost: test\r\n\r\n", requests: 40, connections: 2, depth: 5, status: 200, isHead: true},
		{name: "open loop", request: getRequest, requests: 200, connections: 3, depth: 4, status: 200, isOpen: true},
		{name: "a connection per request", request: getRequest, requests: 20, connections: 2, depth: 1, status: 200, isOnePerC: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			http2Servers(t, func(t *testing.T, config Config, served *atomic.Int64) {
				config.Request, config.Requests, config.Connections, config.Depth = []byte(c.request), c.requests, c.connections, c.depth
				config.IsHead, config.OncePerConn = c.isHead, c.isOnePerC
				if c.isOpen {
					config.Rate = 2000
				}
				result := measure(t, config)
				checkErrors(t, result, [Kinds]int64{})
				if result.Sent != c.requests || result.Answered != c.requests || result.Status[c.status] != c.requests ||
					served.Load() != c.requests || result.Latency.TotalCount() != c.requests || result.Unanswered != 0 {
					t.Errorf("sent %d, answered %d, the server had %d, %d latencies", result.Sent, result.Answered, served.Load(), result.Latency.TotalCount())
				}
				if result.BytesRead < c.leastRead || result.BytesWritten < c.leastWritten {
					t.Errorf("%d bytes read, %d written", result.BytesRead, result.BytesWritten)
				}
				if c.isOnePerC && result.Connections != c.requests {
					t.Errorf("%d connections", result.Connections)
				}
			})
		})
	}
}

// TestHTTP2WarmUp: what each connection sends before Begin does not count.
func TestHTTP2WarmUp(t *testing.T) {
	http2Servers(t, func(t *testing.T, config Config, served *atomic.Int64) {
		before := int64(0)
		config.Requests = 300
		config.Begin = func() { before = served.Load() }
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if want := int64(warmUps * config.Connections * config.Depth); before != want || served.Load() != want+300 || result.Answered != 300 {
			t.Errorf("%d before, %d in all, %d answered", before, served.Load(), result.Answered)
		}
	})
}

// TestHTTP2Duration: the end of the time ends the run.
func TestHTTP2Duration(t *testing.T) {
	http2Servers(t, func(t *testing.T, config Config, _ *atomic.Int64) {
		for _, rate := range []float64{0, 3000} {
			config.Duration, config.Rate, config.Begin = 300*time.Millisecond, rate, func() {}
			result := measure(t, config)
			checkErrors(t, result, [Kinds]int64{})
			if result.Answered == 0 || result.Answered > result.Sent {
				t.Errorf("rate %v: %d of %d answered", rate, result.Answered, result.Sent)
			}
		}
	})
}

// serveHTTP1 serves HTTP/1.1 over TLS.
func serveHTTP1(t *testing.T) string {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	return srv.Listener.Addr().String()
}
