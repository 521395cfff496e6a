package sluice

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
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
