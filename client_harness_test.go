package sluice

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// clientPatience bounds what tests of clients wait for. It is only reached when
// a test fails.
const clientPatience = 15 * time.Second

// newCall returns a request and a response.
func newCall(method, url string) (*Request, *Response) {
	req := new(Request)
	req.Header.SetMethod(method)
	req.SetRequestURI(url)
	return req, new(Response)
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(clientPatience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// within runs f and fails if that takes too long.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(clientPatience):
		buf := make([]byte, 1<<18)
		t.Fatalf("%s hangs:\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// testTLS returns configurations of a server with a certificate for host, and
// of its clients.
func testTLS(t testing.TB, host string) (server, client *tls.Config) {
	t.Helper()
	certPEM, keyPEM, err := GenerateTestCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, &tls.Config{RootCAs: roots}
}

// http2Servers are the servers that tests of the client's HTTP/2 use. Each answers with
// what it has received; see mirrorRequest.
var http2Servers = []http2Server{
	{"sluice TLS h2", true, true, serveSluice},
	{"sluice TLS http/1.1", true, false, serveSluice},
	{"sluice plain h2c", false, true, serveSluice},
	{"sluice plain http/1.1", false, false, serveSluice},
	{"net/http TLS h2", true, true, serveNetHTTP},
	{"net/http TLS http/1.1", true, false, serveNetHTTP},
	{"net/http plain h2c", false, true, serveNetHTTP},
	{"net/http plain http/1.1", false, false, serveNetHTTP},
}

// http2Server is a kind of server.
type http2Server struct {
	name     string
	isTLS    bool
	isHTTP2  bool
	serveOne func(t testing.TB, kind http2Server, ln net.Listener, config *tls.Config, h http2Handler)
}

// http2Handler answers requests on every kind of server.
type http2Handler struct {
	sluice  RequestHandler
	nethttp http.HandlerFunc
}

// mirrorRequest answers with method, host, path, protocol and body.
var mirrorRequest = http2Handler{
	sluice: func(ctx *RequestCtx) {
		fmt.Fprintf(ctx, "%s %s %s %s ", ctx.Method(), ctx.Host(), ctx.RequestURI(), ctx.Request.Header.Protocol())
		_, _ = ctx.Write(ctx.PostBody())
	},
	nethttp: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.RequestURI, r.Proto, body)
	},
}

// http2Rig is a running server, and how often it was dialed.
type http2Rig struct {
	kind   http2Server
	addr   string
	client *tls.Config // nil: plain text
	dials  atomic.Int64
}

// start serves until the test ends.
func (kind http2Server) start(t testing.TB, h http2Handler) *http2Rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &http2Rig{kind: kind, addr: ln.Addr().String()}
	var server *tls.Config
	if kind.isTLS {
		server, r.client = testTLS(t, "127.0.0.1")
	}
	kind.serveOne(t, kind, ln, server, h)
	return r
}

// dial counts.
func (r *http2Rig) dial(addr string) (net.Conn, error) {
	r.dials.Add(1)
	c, err := net.Dial("tcp", addr)
	return c, err
}

// host returns a client for the server.
func (r *http2Rig) host(mode HTTP2Mode) *HostClient {
	return &HostClient{Addr: r.addr, IsTLS: r.kind.isTLS, TLSConfig: r.client, HTTP2: mode, Dial: r.dial}
}

func (r *http2Rig) url(path string) string {
	if r.kind.isTLS {
		return "https://" + r.addr + path
	}
	return "http://" + r.addr + path
}

func serveSluice(t testing.TB, kind http2Server, ln net.Listener, config *tls.Config, h http2Handler) {
	s := &Server{Handler: h.sluice, TLSConfig: config, Logger: log.New(io.Discard, "", 0), StreamRequestBody: true, MaxRequestBodySize: 64 << 20}
	s.HTTP2.Disable = !kind.isHTTP2
	serveUntilEnd(t, s, ln)
}

// serveUntilEnd serves until the test ends.
func serveUntilEnd(t testing.TB, s *Server, ln net.Listener) {
	served := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			served <- s.ServeTLS(ln, "", "")
			return
		}
		served <- s.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		_ = s.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func serveNetHTTP(t testing.TB, kind http2Server, ln net.Listener, config *tls.Config, h http2Handler) {
	s := &http.Server{Handler: h.nethttp, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0), Protocols: &http.Protocols{}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(kind.isHTTP2)
	s.Protocols.SetUnencryptedHTTP2(kind.isHTTP2)
	served := make(chan error, 1)
	go func() {
		if config != nil {
			served <- s.ServeTLS(ln, "", "")
			return
		}
		served <- s.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
}

// onEachHTTP2Server runs a test with each server that speaks HTTP/2; if the tests are to
// be short, with one of each make: with TLS, and without.
func onEachHTTP2Server(t *testing.T, h http2Handler, test func(t *testing.T, r *http2Rig)) {
	t.Helper()
	for _, kind := range http2Servers {
		if kind.isHTTP2 && (!testing.Short() || kind.isTLS == strings.HasPrefix(kind.name, "sluice")) {
			t.Run(kind.name, func(t *testing.T) { test(t, kind.start(t, h)) })
		}
	}
}

const pipelineBound = 20 * time.Second

// waitUntil waits until is true.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(pipelineBound); !is(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("not so in %v: %s", pipelineBound, what)
		}
	}
}
