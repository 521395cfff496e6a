package sluice

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/internal/clock"
)

// clientPatience bounds what tests of clients wait for. It is only reached when
// a test fails.
const clientPatience = 15 * time.Second

// okAnswer is what peers send where it does not matter what.
const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// clientPeer is a server on loopback whose connections run a script.
type clientPeer struct {
	ln     net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	heads  []string // "METHOD target body" of each request
	script func(c *peerConn)
}

// peerConn is a connection of a clientPeer.
type peerConn struct {
	net.Conn
	br     *bufio.Reader
	peer   *clientPeer
	number int // from 1
}

// newClientPeer starts a peer that runs script on each connection, which is
// closed afterwards.
func newClientPeer(t testing.TB, script func(c *peerConn)) *clientPeer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newPeerOn(t, ln, script)
}

func newPeerOn(t testing.TB, ln net.Listener, script func(c *peerConn)) *clientPeer {
	p := &clientPeer{ln: ln, script: script}
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		running.Wait()
	})
	return p
}

func (p *clientPeer) accept(running *sync.WaitGroup) {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, c)
		pc := &peerConn{Conn: c, br: bufio.NewReader(c), peer: p, number: len(p.conns)}
		p.mu.Unlock()
		running.Go(func() {
			defer c.Close()
			p.script(pc)
		})
	}
}

// request reads a request with its body; nil: there is none.
func (c *peerConn) request() *Request {
	r := new(Request)
	if r.Read(c.br) != nil {
		return nil
	}
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	c.peer.heads = append(c.peer.heads, string(r.Header.Method())+" "+string(r.Header.RequestURI())+" "+string(r.Body()))
	return r
}

// send writes raw.
func (c *peerConn) send(raw string) { _, _ = io.WriteString(c.Conn, raw) }

// gone waits until the client has closed the connection.
func (c *peerConn) gone() { _, _ = io.Copy(io.Discard, c.br) }

// answering is a script that answers each request with raw.
func answering(raw string) func(c *peerConn) {
	return func(c *peerConn) {
		for c.request() != nil {
			c.send(raw)
		}
	}
}

func (p *clientPeer) addr() string { return p.ln.Addr().String() }

func (p *clientPeer) url(path string) string { return "http://" + p.addr() + path }

// accepted returns how many connections there were.
func (p *clientPeer) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// requests returns the requests that came.
func (p *clientPeer) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.heads...)
}

// host returns a client of the peer.
func (p *clientPeer) host() *HostClient { return &HostClient{Addr: p.addr()} }

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

// checkPool fails if the pool does not come to have as many connections.
func checkPool(t testing.TB, c *HostClient, open, idle int) {
	t.Helper()
	eventually(t, "the pool's counts", func() bool { return c.ConnsCount() == open && c.IdleConnsCount() == idle })
}

// waiters returns how many requests wait for a connection.
func (c *HostClient) waiters() int { return c.pool.Waiting() }

// hookedConn is a connection of a client that tests look into.
type hookedConn struct {
	net.Conn
	mu            sync.Mutex
	readDeadline  time.Time
	writeDeadline time.Time
	afterRead     func(p []byte)
	onWrite       func(c *hookedConn, p []byte) (n int, err error, isDone bool)
	onDeadline    func()
}

func (c *hookedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.afterRead != nil {
		c.afterRead(p[:n])
	}
	return n, err
}

func (c *hookedConn) Write(p []byte) (int, error) {
	if c.onWrite != nil {
		if n, err, isDone := c.onWrite(c, p); isDone {
			return n, err
		}
	}
	return c.Conn.Write(p)
}

func (c *hookedConn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	c.readDeadline, c.writeDeadline = at, at
	c.mu.Unlock()
	return c.Conn.SetDeadline(at)
}

func (c *hookedConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	c.readDeadline = at
	c.mu.Unlock()
	err := c.Conn.SetReadDeadline(at)
	if c.onDeadline != nil {
		c.onDeadline()
	}
	return err
}

func (c *hookedConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	c.writeDeadline = at
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(at)
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

// pipelinePeer is a server that does what a test says.
type pipelinePeer struct {
	t     *testing.T
	ln    *fasthttputil.InmemoryListener
	conns chan *pipelineConn
}

// pipelineConn is a connection of a pipelinePeer.
type pipelineConn struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

const pipelineBound = 20 * time.Second

func newPipelinePeer(t *testing.T) (*PipelineClient, *pipelinePeer) {
	p := &pipelinePeer{t: t, ln: fasthttputil.NewInmemoryListener(), conns: make(chan *pipelineConn, 64)}
	go func() {
		for {
			c, err := p.ln.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(pipelineBound))
			p.conns <- &pipelineConn{Conn: c, t: t, br: bufio.NewReader(c)}
		}
	}()
	c := &PipelineClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { return p.ln.Dial() }}
	t.Cleanup(func() {
		_ = p.ln.Close()
		for len(p.conns) > 0 {
			_ = (<-p.conns).Close()
		}
		c.CloseIdleConnections()
	})
	return c, p
}

// accept returns the next connection.
func (p *pipelinePeer) accept() *pipelineConn {
	p.t.Helper()
	select {
	case c := <-p.conns:
		p.t.Cleanup(func() { _ = c.Close() })
		return c
	case <-time.After(pipelineBound):
		p.t.Fatal("no connection")
		return nil
	}
}

// expect reads requests with these targets.
func (c *pipelineConn) expect(targets ...string) {
	c.t.Helper()
	for _, target := range targets {
		var req Request
		if err := req.Read(c.br); err != nil {
			c.t.Fatalf("no request for %s: %v", target, err)
		}
		if got := string(req.Header.RequestURI()); got != target {
			c.t.Fatalf("the request is for %q, want %q", got, target)
		}
	}
}

// say writes.
func (c *pipelineConn) say(answers ...string) {
	c.t.Helper()
	if _, err := c.Write([]byte(strings.Join(answers, ""))); err != nil {
		c.t.Fatal(err)
	}
}

// expectEnd waits until the client closes the connection.
func (c *pipelineConn) expectEnd() {
	c.t.Helper()
	if b, err := c.br.ReadByte(); err == nil {
		c.t.Fatalf("the client sent %q, want the end of the connection", b)
	} else if clock.IsTimeout(err) {
		c.t.Fatal("the client does not close the connection")
	}
}

func answerOK(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// pendingCall is a call on its way.
type pendingCall struct {
	t    *testing.T
	req  *Request
	resp *Response
	err  chan error
}

// inBubble runs a test in a bubble of synctest.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// beginPipelined sends a request in a goroutine of its own, and returns when it is
// queued or sent. It needs a bubble: a count of requests says neither, because a
// place in the queue is reserved before, and a request that is being sent counts
// twice.
func beginPipelined(t *testing.T, c *PipelineClient, method, target string, set ...func(*Request, *Response)) *pendingCall {
	t.Helper()
	p := &pendingCall{t: t, req: new(Request), resp: new(Response), err: make(chan error, 1)}
	p.req.Header.SetMethod(method)
	p.req.SetRequestURI("http://x" + target)
	for _, f := range set {
		f(p.req, p.resp)
	}
	go func() { p.err <- c.Do(p.req, p.resp) }()
	synctest.Wait()
	return p
}

// end waits for the call.
func (p *pendingCall) end() error {
	p.t.Helper()
	select {
	case err := <-p.err:
		return err
	case <-time.After(pipelineBound):
		p.t.Fatalf("the call for %s does not return", p.req.URI())
		return nil
	}
}

// want waits for the call, and checks the body of the answer.
func (p *pendingCall) want(body string) {
	p.t.Helper()
	if err := p.end(); err != nil || string(p.resp.Body()) != body {
		p.t.Errorf("%s: %v, body %q, want %q", p.req.URI(), err, p.resp.Body(), body)
	}
}

// waitUntil waits until is true.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(pipelineBound); !is(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("not so in %v: %s", pipelineBound, what)
		}
	}
}

// noNewGoroutines checks at the end of the test that those there are then were
// there before.
func noNewGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(pipelineBound); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 64<<10)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}
