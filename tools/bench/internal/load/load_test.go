package load

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(Roles())
	os.Exit(m.Run())
}

// site is a server that counts.
type site struct {
	addr               string
	requests, accepted atomic.Int64
}

func serve(t *testing.T, overTLS bool, status int) *site {
	s := new(site)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.requests.Add(1)
		w.WriteHeader(status)
		io.WriteString(w, "hi")
	}))
	server.Config.ConnState = countNew(&s.accepted)
	if overTLS {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	s.addr = server.Listener.Addr().String()
	return s
}

func TestLoads(t *testing.T) {
	generator, err := Start(t.Context(), process.Options{CPU: process.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		load Load
		warm int64 // requests before the load
		want int64 // requests of it; 0: some
	}{
		{"one at a time", Load{Conns: 3, Duration: time.Second}, 6, 0},
		{"pipelined", Load{Conns: 2, Depth: 4, Requests: 80}, 16, 80},
		{"at a rate", Load{Conns: 3, Rate: 1000, Duration: 100 * time.Millisecond}, 6, 100},
		{"closed", Load{Conns: 2, Close: true, Requests: 10}, 0, 10},
		{"repeated", Load{Conns: 2, Requests: 2, Repeat: 5}, 0, 10},
		{"over TLS", Load{Conns: 2, TLS: true, Requests: 10}, 4, 10},
		{"over HTTP/2", Load{Conns: 2, Depth: 4, TLS: true, HTTP2: true, Requests: 80}, 16, 80},
	} {
		s := serve(t, c.load.TLS, 200)
		c.load.Addr, c.load.Request = s.addr, Get("/", "")
		if err := generator.Open(c.load); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if n := s.requests.Load(); n != c.warm {
			t.Errorf("%s: %d requests before it, want %d", c.name, n, c.warm)
		}
		results, err := generator.Run()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r := results[0]
		if r.Failures != 0 || r.Elapsed <= 0 || r.Rate() <= 0 || r.Latency.Count() < int64(r.Requests) || r.Received < int64(r.Requests)*int64(len("hi")) || r.Latency.Percentile(99) <= 0 {
			t.Errorf("%s: %+v", c.name, r)
		}
		if c.want > 0 && (int64(r.Requests) != c.want || s.requests.Load() != c.warm+c.want) {
			t.Errorf("%s: %d requests, the server had %d, want %d", c.name, r.Requests, s.requests.Load(), c.want)
		}
		if n := s.accepted.Load(); (c.load.Repeat > 0 || c.load.Close) && n < 10 {
			t.Errorf("%s: %d connections", c.name, n)
		}
	}
	if err := generator.Stop(); err != nil {
		t.Error(err)
	}
}

// Several loads go on at the same time, and keep their order.
func TestLoadsAtOnce(t *testing.T) {
	generator, err := Start(t.Context(), process.Options{CPU: process.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, false, 200)
	l := Load{Addr: s.addr, Request: Get("/", ""), Conns: 2, Requests: 10}
	m := l
	m.Requests = 20
	if err := generator.Open(l, m); err != nil {
		t.Fatal(err)
	}
	results, err := generator.Run()
	if err != nil || len(results) != 2 || results[0].Requests != 10 || results[1].Requests != 20 {
		t.Errorf("results %+v, %v", results, err)
	}
	if err := generator.Stop(); err != nil {
		t.Error(err)
	}
}

// Answers that are not good are failures, and a server that is not there is an
// error.
func TestFailures(t *testing.T) {
	s := serve(t, false, 500)
	generator, err := Start(t.Context(), process.Options{CPU: process.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	l := Load{Addr: s.addr, Request: Get("/", ""), Conns: 2, Requests: 10}
	if r, err := generator.Put(l); err == nil {
		t.Errorf("result %+v of answers with status 500", r)
	}
	l.Addr = "127.0.0.1:1"
	if err := generator.Open(l); err == nil {
		t.Error("no error without a server")
	}
	var sum Result
	if sum.Errors() != "0" {
		t.Errorf("errors %q", sum.Errors())
	}
}

func TestHold(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		s := serve(t, overTLS, 200)
		held, err := Hold(t.Context(), Load{Addr: s.addr, Request: Get("/", ""), Conns: 20, TLS: overTLS})
		if err != nil {
			t.Fatal(err)
		}
		if s.requests.Load() != 40 || s.accepted.Load() != 20 {
			t.Errorf("%d requests on %d connections", s.requests.Load(), s.accepted.Load())
		}
		if err := held.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Hold(t.Context(), Load{Addr: "127.0.0.1:1", Request: Get("/", ""), Conns: 1}); err == nil {
		t.Error("no error without a server")
	}
}

func countNew(n *atomic.Int64) func(_ net.Conn, state http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
}
