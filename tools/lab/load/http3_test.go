package load

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
)

// serveHTTP3 serves h over QUIC, and returns the configuration of a run against it.
func serveHTTP3(t *testing.T, h sluice.RequestHandler) Config {
	t.Helper()
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &sluice.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	served := make(chan error, 1)
	go func() { served <- (&http3.Server{Server: server}).Serve(socket) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return Config{
		Network: "tcp", Address: socket.LocalAddr().String(), HTTP3: true, TLS: &tls.Config{InsecureSkipVerify: true},
		Request: []byte(getRequest), Connections: 3, Threads: 2, Depth: 5, Timeout: 10 * time.Second,
	}
}

// TestHTTP3: every request is sent and answered once, on so many connections and streams.
func TestHTTP3(t *testing.T) {
	var served, inside, most atomic.Int64
	var mu sync.Mutex
	addrs := map[string]bool{}
	config := serveHTTP3(t, func(ctx *sluice.RequestCtx) {
		n := inside.Add(1)
		defer inside.Add(-1)
		mu.Lock()
		addrs[ctx.RemoteAddr().String()] = true
		most.Store(max(most.Load(), n))
		mu.Unlock()
		served.Add(1)
		time.Sleep(time.Millisecond)
		ctx.SetStatusCode(201)
		ctx.SetBodyString("hello")
	})
	for _, rate := range []float64{0, 2000} {
		served.Store(0)
		clear(addrs)
		config.Requests, config.Rate = 200, rate
		r, err := Run(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if r.ErrorSum() > 0 {
			t.Error(r.Examples)
		}
		if r.Answered != 200 || r.Sent != 200 || r.Status[201] != 200 || r.ErrorSum() != 0 || r.BytesRead != 1000 || served.Load() != 200 || r.Latency.TotalCount() != 200 {
			t.Errorf("rate %v: %+v, served %d", rate, r.Counts.Errors, served.Load())
		}
		if rate == 0 && (r.Connections != 3 || len(addrs) != 3 || most.Load() < 4) {
			t.Errorf("%d connections, %d addresses, %d requests at once", r.Connections, len(addrs), most.Load())
		}
	}
}

// TestHTTP3WarmUp: what each stream sends before Begin does not count.
func TestHTTP3WarmUp(t *testing.T) {
	var served atomic.Int64
	config := serveHTTP3(t, func(*sluice.RequestCtx) { served.Add(1) })
	var before int64
	config.Requests, config.Begin = 30, func() { before = served.Load() }
	r, err := Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if before != 3*5*warmUps || r.Answered != 30 || served.Load() != before+30 || r.Connections != 0 {
		t.Errorf("%d before, %d, %d connections", before, served.Load(), r.Connections)
	}
}

// TestHTTP3Ends: the end of the time ends a run whose requests are under way; what is under way
// is counted.
func TestHTTP3Ends(t *testing.T) {
	release := make(chan struct{})
	config := serveHTTP3(t, func(*sluice.RequestCtx) { <-release })
	defer close(release)
	config.Duration = 300 * time.Millisecond
	r, err := Run(t.Context(), config)
	if err != nil || r.Unanswered != 15 || r.Answered != 0 || r.ErrorSum() != 0 {
		t.Errorf("%v: %+v", err, r)
	}
	config.Timeout, config.Requests, config.Connections = 50*time.Millisecond, 3, 1
	config.Duration = 0
	r, err = Run(t.Context(), config)
	if err != nil || r.Errors[Timeout] != 3 {
		t.Errorf("%v: %v", err, r.Errors)
	}
}

// TestHTTP3Errors: kinds of errors, and what cannot be.
func TestHTTP3Errors(t *testing.T) {
	for _, tc := range []struct {
		err  error
		kind Kind
	}{
		{&sluice.ErrDialWithUpstream{}, Connect},
		{sluice.ErrTimeout, Timeout},
		{io.ErrUnexpectedEOF, Read},
		{&http3.Error{Code: codeRejected, IsRemote: true}, Refused},
		{&http3.Error{Code: 0x102, IsRemote: true}, Reset},
		{&http3.Error{Code: 0x10e}, Invalid},
	} {
		if got := kindOfHTTP3(tc.err); got != tc.kind {
			t.Errorf("%v is %s, want %s", tc.err, got, tc.kind)
		}
	}
	secure := &tls.Config{}
	for _, config := range []Config{
		{Network: "tcp", HTTP3: true},
		{Network: "unix", HTTP3: true, TLS: secure},
		{Network: "tcp", HTTP3: true, TLS: secure, HTTP2: true},
		{Network: "tcp", HTTP3: true, TLS: secure, Request: []byte("no request")},
	} {
		if config.Request == nil {
			config.Request = []byte(getRequest)
		}
		config.Requests = 1
		if _, err := Run(t.Context(), config); err == nil {
			t.Errorf("%+v has no error", config)
		}
	}
}
