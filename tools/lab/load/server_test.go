package load

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	okResponse    = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	closeResponse = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	getRequest    = "GET / HTTP/1.1\r\nHost: test\r\n\r\n"
)

// TestMain makes room for servers beside the threads, which hold a processor each.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 8))
	os.Exit(m.Run())
}

// A script serves one connection. ask reads the next request; false is the end of
// the connection.
type script func(c net.Conn, ask func() bool)

// server runs a script on each connection.
type server struct {
	addr        string
	requests    atomic.Int64
	connections atomic.Int64
}

func serve(t *testing.T, s script) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, s)
}

func serveOn(t *testing.T, ln net.Listener, s script) *server {
	srv := &server{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	isOver := false
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if isOver {
				c.Close()
			}
			open[c] = true
			mu.Unlock()
			srv.connections.Add(1)
			wg.Go(func() {
				srv.run(c, s)
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		isOver = true
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return srv
}

func (srv *server) run(c net.Conn, s script) {
	defer c.Close()
	in := bufio.NewReader(c)
	s(c, func() bool {
		req, err := http.ReadRequest(in)
		if err != nil {
			return false
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return false
		}
		srv.requests.Add(1)
		return true
	})
}

// answer is a script that gives every request the same response.
func answer(response string) script {
	return func(c net.Conn, ask func() bool) {
		for ask() {
			if _, err := c.Write([]byte(response)); err != nil {
				return
			}
		}
	}
}

// answers is a script that writes one response after the other, a request for
// each, and then ends the connection.
func answers(responses ...string) script {
	return func(c net.Conn, ask func() bool) {
		for _, response := range responses {
			if !ask() {
				return
			}
			c.Write([]byte(response))
		}
	}
}

// silent is a script that reads and does not answer.
func silent(_ net.Conn, ask func() bool) {
	for ask() {
	}
}

// kinds runs a test with event loops and with a goroutine per connection.
func kinds(t *testing.T, test func(t *testing.T, config Config)) {
	for name, usesStreams := range map[string]bool{"loops": false, "streams": true} {
		if name == "loops" && !hasLoops {
			continue
		}
		t.Run(name, func(t *testing.T) {
			test(t, Config{
				Network: "tcp", Request: []byte(getRequest), Connections: 3, Threads: 2, Timeout: time.Minute,
				UsesStreams: usesStreams,
			})
		})
	}
}

// measure is Run, which must not fail.
func measure(t *testing.T, config Config) *Result {
	t.Helper()
	result, err := Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// checkErrors compares the errors with what is wanted, kind by kind.
func checkErrors(t *testing.T, result *Result, want [Kinds]int64) {
	t.Helper()
	if result.Errors != want {
		t.Errorf("errors %v, not %v; the first of each: %v", result.Errors, want, result.Examples)
	}
	for kind, n := range want {
		if (n > 0) != (result.Examples[kind] != nil) {
			t.Errorf("%v: %d times, the first is %v", Kind(kind), n, result.Examples[kind])
		}
	}
}

func unixListener(t *testing.T) net.Listener {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Skip(err)
	}
	return ln
}

// request returns a request with a body.
func request(body string) []byte {
	return []byte("POST / HTTP/1.1\r\nHost: test\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}
