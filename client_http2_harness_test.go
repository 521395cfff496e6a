package sluice

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

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
