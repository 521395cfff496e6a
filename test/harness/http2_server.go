package harness

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// HTTP2Servers are the servers that tests of the client's HTTP/2 use. Each answers with
// what it has received; see mirrorRequest.
var HTTP2Servers = []http2Server{
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
	Name     string
	IsTLS    bool
	IsHTTP2  bool
	serveOne func(t testing.TB, kind http2Server, ln net.Listener, config *tls.Config, h HTTP2Handler)
}

// HTTP2Handler answers requests on every kind of server.
type HTTP2Handler struct {
	Sluice  sluice.RequestHandler
	NetHTTP http.HandlerFunc
}

// HTTP2Rig is a running server, and how often it was dialed.
type HTTP2Rig struct {
	Kind   http2Server
	Addr   string
	Client *tls.Config // nil: plain text
	Dials  atomic.Int64
	mu     sync.Mutex
	conns  []net.Conn // that kill closes
}

// Start serves until the test ends.
func (kind http2Server) Start(t testing.TB, h HTTP2Handler) *HTTP2Rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &HTTP2Rig{Kind: kind, Addr: ln.Addr().String()}
	var server *tls.Config
	if kind.IsTLS {
		server, r.Client = TLSConfigs(t, "127.0.0.1")
	}
	kind.serveOne(t, kind, ln, server, h)
	return r
}

// Dial counts.
func (r *HTTP2Rig) Dial(addr string) (net.Conn, error) {
	r.Dials.Add(1)
	c, err := net.Dial("tcp", addr)
	return c, err
}

// Note keeps a connection for kill.
func (r *HTTP2Rig) Note(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
}

// Kill closes the connections that were noted.
func (r *HTTP2Rig) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// Host returns a client for the server.
func (r *HTTP2Rig) Host(mode sluice.HTTP2Mode) *sluice.HostClient {
	return &sluice.HostClient{Addr: r.Addr, IsTLS: r.Kind.IsTLS, TLSConfig: r.Client, HTTP2: mode, Dial: r.Dial}
}

func (r *HTTP2Rig) URL(path string) string {
	if r.Kind.IsTLS {
		return "https://" + r.Addr + path
	}
	return "http://" + r.Addr + path
}

func serveSluice(t testing.TB, kind http2Server, ln net.Listener, config *tls.Config, h HTTP2Handler) {
	s := &sluice.Server{Handler: h.Sluice, TLSConfig: config, Logger: log.New(io.Discard, "", 0), StreamRequestBody: true, MaxRequestBodySize: 64 << 20}
	s.HTTP2.Disable = !kind.IsHTTP2
	ServeUntilEnd(t, s, ln)
}

func serveNetHTTP(t testing.TB, kind http2Server, ln net.Listener, config *tls.Config, h HTTP2Handler) {
	s := &http.Server{Handler: h.NetHTTP, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0), Protocols: &http.Protocols{}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(kind.IsHTTP2)
	s.Protocols.SetUnencryptedHTTP2(kind.IsHTTP2)
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

// Reading returns a client like c with a ReadTimeout.
func (r *HTTP2Rig) Reading(c *sluice.HostClient, limit time.Duration) *sluice.HostClient {
	other := r.Host(c.HTTP2)
	other.ReadTimeout = limit
	other.MaxIdleConnDuration = time.Millisecond
	return other
}
