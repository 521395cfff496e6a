package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Every request is sent and answered once, however connections share them.
func TestRequests(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		for _, c := range []struct {
			connections, threads, depth int
			requests                    int64
		}{{1, 1, 1, 1}, {3, 2, 1, 100}, {10, 4, 1, 7}, {2, 1, 5, 101}, {4, 2, 16, 64}} {
			srv := serve(t, answer(okResponse))
			config.Address, config.Requests = srv.addr, c.requests
			config.Connections, config.Threads, config.Depth = c.connections, c.threads, c.depth
			result := measure(t, config)
			checkErrors(t, result, [Kinds]int64{})
			if result.Sent != c.requests || result.Answered != c.requests || result.Status[200] != c.requests ||
				srv.requests.Load() != c.requests || result.Latency.TotalCount() != c.requests || result.Unanswered != 0 {
				t.Errorf("%+v: sent %d, answered %d, the server had %d, %d latencies", c, result.Sent, result.Answered,
					srv.requests.Load(), result.Latency.TotalCount())
			}
			if result.BytesRead != c.requests*int64(len(okResponse)) || result.BytesWritten != c.requests*int64(len(getRequest)) {
				t.Errorf("%+v: %d bytes read, %d written", c, result.BytesRead, result.BytesWritten)
			}
			if n := result.Connections; n > int64(c.connections) || n < srv.connections.Load() {
				t.Errorf("%+v: %d connections, the server had %d", c, n, srv.connections.Load())
			}
		}
	})
}

// All forms of responses are found, and counted by status.
func TestResponses(t *testing.T) {
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"
	for _, c := range []struct {
		name     string
		script   script
		isHead   bool
		requests int64
		status   int
		conns    int64 // 0: any
	}{
		{name: "chunked", script: answer(chunked), requests: 20, status: 200},
		{name: "500", script: answer("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), requests: 20, status: 500},
		{name: "interim", script: answer("HTTP/1.1 103 Hints\r\n\r\n" + okResponse), requests: 20, status: 200},
		{name: "head", script: answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), isHead: true, requests: 20, status: 200},
		{name: "until the end", script: answers("HTTP/1.1 200 OK\r\n\r\nhello"), requests: 9, status: 200, conns: 9},
		{name: "close", script: answers(closeResponse), requests: 9, status: 200, conns: 9},
		{name: "long", script: answer("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 3000000)), requests: 6, status: 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, config Config) {
				srv := serve(t, c.script)
				config.Address, config.Requests, config.IsHead = srv.addr, c.requests, c.isHead
				result := measure(t, config)
				checkErrors(t, result, [Kinds]int64{})
				if result.Answered != c.requests || result.Status[c.status] != c.requests {
					t.Errorf("%d responses, %d with status %d", result.Answered, result.Status[c.status], c.status)
				}
				// After the last response a connection may be made in vain.
				if c.conns > 0 && (result.Connections < c.conns || result.Connections > c.conns+int64(config.Connections)) {
					t.Errorf("%d connections", result.Connections)
				}
			})
		})
	}
}

// What is wrong with a response is an error of the right kind.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		script script
		kind   Kind
		says   string
	}{
		{"ends at once", func(_ net.Conn, ask func() bool) { ask() }, Read, errTruncated.Error()},
		{"ends in the head", answers("HTTP/1.1 200 OK\r\nContent"), Read, errTruncated.Error()},
		{"ends in the body", answers(okResponse[:len(okResponse)-1]), Read, errTruncated.Error()},
		{"ends in a chunk", answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), Read, errTruncated.Error()},
		{"is reset", reset, Read, "reset"},
		{"no HTTP", answers("SSH-2.0-OpenSSH\r\n"), Invalid, "HTTP version"},
		{"bare LF", answers("HTTP/1.1 200 OK\nContent-Length: 0\n\n"), Invalid, "bare LF"},
		{"bad chunk", answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n"), Invalid, "chunk size"},
		{"upgrade", answers("HTTP/1.1 101 Switching Protocols\r\n\r\n"), Invalid, "101"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, config Config) {
				const n = 8
				srv := serve(t, c.script)
				config.Address, config.Requests = srv.addr, n
				result := measure(t, config)
				var want [Kinds]int64
				want[c.kind] = n
				checkErrors(t, result, want)
				if result.Answered != 0 || !strings.Contains(result.Examples[c.kind].Error(), c.says) {
					t.Errorf("%d responses, error %v", result.Answered, result.Examples[c.kind])
				}
			})
		})
	}
}

// reset is a script that ends a connection with an RST.
func reset(c net.Conn, ask func() bool) {
	ask()
	c.(*net.TCPConn).SetLinger(0)
}

// More than the responses is an error, beside the responses that came.
func TestSurplus(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answer(okResponse+okResponse))
		config.Address, config.Requests, config.Connections = srv.addr, 5, 1
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{Invalid: 5})
		if result.Answered != 5 || !errors.Is(result.Examples[Invalid], errSurplus) {
			t.Errorf("%d responses, %v", result.Answered, result.Examples[Invalid])
		}
	})
}

// A server that ends connections behind a response gets the pipelined requests
// that it has not answered on the next one.
func TestPipelineIsCut(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answers(okResponse, okResponse, closeResponse))
		config.Address, config.Requests, config.Connections, config.Depth = srv.addr, 20, 1, 5
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Answered != 20 || result.Sent != 20 || result.Latency.TotalCount() != 20 {
			t.Errorf("sent %d, answered %d", result.Sent, result.Answered)
		}
	})
}

// One that ends them without saying so owes the others.
func TestPipelineIsShort(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answers(okResponse, okResponse))
		config.Address, config.Requests, config.Connections, config.Depth = srv.addr, 10, 1, 5
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{Read: 6})
		if result.Answered != 4 {
			t.Errorf("%d responses", result.Answered)
		}
	})
}

func TestTimeout(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, silent)
		config.Address, config.Requests, config.Connections, config.Depth = srv.addr, 3, 1, 3
		config.Timeout = 50 * time.Millisecond
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{Timeout: 3})
		if n, least := result.Latency.TotalCount(), result.Latency.Min(); n != 3 || least < int64(49*time.Millisecond) {
			t.Errorf("%d latencies from %v", n, time.Duration(least))
		}
	})
}

// Without a server the run ends at once.
func TestRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	kinds(t, func(t *testing.T, config Config) {
		config.Address, config.Duration = ln.Addr().String(), time.Hour
		result, err := Run(t.Context(), config)
		if !errors.Is(err, ErrNoConnection) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("error %v", err)
		}
		if result.Sent != 0 || result.Errors[Connect] < int64(config.Connections) {
			t.Errorf("sent %d, errors %v", result.Sent, result.Errors)
		}
		config.Duration, config.Requests = 0, 2
		if _, err := Run(t.Context(), config); !errors.Is(err, ErrNoConnection) {
			t.Errorf("with a number of requests: %v", err)
		}
	})
}

// A server that goes away costs errors, and a number of requests comes to its end.
func TestServerGoesAway(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := serveOn(t, ln, func(c net.Conn, ask func() bool) {
			ask()
			ln.Close()
			c.Write([]byte(closeResponse))
		})
		config.Address, config.Requests, config.Connections = srv.addr, 4, 1
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{Connect: 3})
		if result.Answered != 1 {
			t.Errorf("%d responses", result.Answered)
		}
	})
}

func TestOncePerConn(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		for _, rate := range []float64{0, 2000} {
			srv := serve(t, answer(okResponse))
			config.Address, config.Requests, config.OncePerConn, config.Rate = srv.addr, 30, true, rate
			result := measure(t, config)
			checkErrors(t, result, [Kinds]int64{})
			if result.Answered != 30 || result.Connections != 30 || srv.connections.Load() != 30 {
				t.Errorf("rate %v: %d responses on %d connections, the server had %d", rate, result.Answered, result.Connections, srv.connections.Load())
			}
		}
	})
}

// The end of the context ends the run, with what there is.
func TestInterrupt(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		var asked atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		srv := serve(t, func(c net.Conn, ask func() bool) {
			ask()
			c.Write([]byte(okResponse))
			ask()
			if asked.Add(1) == 3 {
				cancel()
			}
			silent(c, ask)
		})
		config.Address, config.Duration, config.Timeout = srv.addr, time.Hour, time.Hour
		result, err := Run(ctx, config)
		if err != nil || result.Answered != 3 || result.Unanswered != 3 || result.Sent != 6 {
			t.Errorf("%d responses, %d unanswered, %d sent, %v", result.Answered, result.Unanswered, result.Sent, err)
		}
		checkErrors(t, result, [Kinds]int64{})
	})
}

func TestDuration(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answer(okResponse))
		calls := 0
		config.Address, config.Duration, config.Every = srv.addr, 100*time.Millisecond, 10*time.Millisecond
		config.Progress = func(p Progress) { calls++ }
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Elapsed < config.Duration || result.Answered == 0 || calls == 0 || calls != len(result.Rates) {
			t.Errorf("%d responses in %v, progress told %d times, %d rates", result.Answered, result.Elapsed, calls, len(result.Rates))
		}
		if result.Sent != result.Answered+result.Unanswered || result.Latency.TotalCount() != result.Answered {
			t.Errorf("sent %d, answered %d, unanswered %d, %d latencies", result.Sent, result.Answered, result.Unanswered, result.Latency.TotalCount())
		}
	})
}

// A response before the whole request was sent counts, and ends the connection.
func TestEarlyResponse(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, func(c net.Conn, _ func() bool) {
			c.Write([]byte("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"))
			var b [1]byte
			for range 200 { // so that the client reads before it meets an RST
				c.Read(b[:])
			}
		})
		config.Address, config.Requests = srv.addr, 6
		config.Request = request(strings.Repeat("x", 20<<20))
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Status[413] != 6 {
			t.Errorf("%d responses with 413, %d in all", result.Status[413], result.Answered)
		}
	})
}

func TestLargeBodies(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answer(okResponse))
		config.Address, config.Requests, config.Depth = srv.addr, 20, 4
		config.Request = request(strings.Repeat("x", 1<<20))
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Answered != 20 || result.BytesWritten != 20*int64(len(config.Request)) {
			t.Errorf("%d responses, %d bytes written", result.Answered, result.BytesWritten)
		}
	})
}

func TestUnixSocket(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serveOn(t, unixListener(t), answer(okResponse))
		config.Network, config.Address, config.Requests = "unix", srv.addr, 20
		for _, config.OncePerConn = range []bool{false, true} {
			result := measure(t, config)
			checkErrors(t, result, [Kinds]int64{})
			if result.Answered != 20 {
				t.Errorf("%d responses", result.Answered)
			}
		}
	})
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	config := Config{
		Network: "tcp", Address: srv.Listener.Addr().String(), TLS: &tls.Config{InsecureSkipVerify: true},
		Request: []byte(getRequest), Requests: 40, Connections: 3, Threads: 2, Timeout: time.Minute,
	}
	for _, config.OncePerConn = range []bool{false, true} {
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Status[200] != 40 {
			t.Errorf("%d responses", result.Answered)
		}
	}
	config.TLS = &tls.Config{ServerName: "example.com"}
	result, err := Run(t.Context(), config)
	var unknown *tls.CertificateVerificationError
	if !errors.Is(err, ErrNoConnection) || !errors.As(err, &unknown) || result.Sent > 0 && !config.OncePerConn {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for name, config := range map[string]Config{
		"no request": {Requests: 1},
		"endless":    {Request: []byte(getRequest)},
		"pipelined":  {Request: []byte(getRequest), Requests: 1, OncePerConn: true, Depth: 2},
		"rate":       {Request: []byte(getRequest), Requests: 1, Rate: -1},
		"address":    {Request: []byte(getRequest), Requests: 1, Network: "tcp", Address: "localhost"},
	} {
		config.Timeout = time.Second
		if result, err := Run(t.Context(), config); err == nil {
			t.Errorf("%s: %+v", name, result.Counts.Answered)
		}
	}
}

// Before Begin each connection has had two batches answered; they are not counted,
// and nothing is sent while Begin runs.
func TestWarmUp(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		for _, c := range []struct {
			script script
			depth  int
			rate   float64
		}{{answer(okResponse), 1, 0}, {answer(okResponse), 3, 0}, {answer(okResponse), 1, 5000}, {answers(closeResponse), 1, 0}} {
			srv := serve(t, c.script)
			config.Address, config.Connections, config.Threads, config.Requests = srv.addr, 5, 2, 60
			config.Depth, config.Rate = c.depth, c.rate
			warm := int64(5 * warmUps * c.depth)
			begun := false
			config.Begin = func() {
				begun = true
				if n := srv.requests.Load(); n != warm {
					t.Errorf("%+v: %d requests before Begin, want %d", c, n, warm)
				}
			}
			result := measure(t, config)
			checkErrors(t, result, [Kinds]int64{})
			if !begun || result.Sent != 60 || result.Answered != 60 || result.Latency.TotalCount() != 60 || srv.requests.Load() != warm+60 {
				t.Errorf("%+v: begun %v, sent %d, answered %d, %d latencies, the server had %d", c, begun, result.Sent, result.Answered,
					result.Latency.TotalCount(), srv.requests.Load())
			}
		}
	})
}

// A server that does not answer is an error before the run begins.
func TestWarmUpFails(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		for _, s := range []script{answer("HTTP/1.1 200\x00\r\n\r\n"), func(net.Conn, func() bool) {}} {
			config.Address, config.Requests = serve(t, s).addr, 10
			config.Begin = func() { t.Error("it has begun") }
			if _, err := Run(t.Context(), config); !errors.Is(err, ErrWarmUp) {
				t.Errorf("error %v", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Run(ctx, config); err == nil {
			t.Error("no error after the context's end")
		}
	})
}

// A server that says that it ends the connection does so first: the client neither
// resets it nor ends it before.
func TestServerClosesFirst(t *testing.T) {
	if !hasLoops {
		t.Skip("goroutines reset at once")
	}
	var wrong atomic.Int64
	srv := serve(t, func(c net.Conn, ask func() bool) {
		if !ask() {
			return
		}
		c.Write([]byte(closeResponse))
		runtime.Gosched() // the client has the response, maybe
		c.(*net.TCPConn).CloseWrite()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			wrong.Add(1)
		}
	})
	result := measure(t, Config{Network: "tcp", Address: srv.addr, Request: []byte(getRequest), Connections: 3, Requests: 60, OncePerConn: true, Timeout: time.Minute})
	checkErrors(t, result, [Kinds]int64{})
	if result.Answered != 60 || wrong.Load() > 0 {
		t.Errorf("%d answers, %d connections ended otherwise", result.Answered, wrong.Load())
	}
}
