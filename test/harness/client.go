package harness

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// OKAnswer is what peers send where it does not matter what.
const OKAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// ClientPeer is a server on loopback whose connections run a script.
type ClientPeer struct {
	Ln     net.Listener
	Mu     sync.Mutex
	Conns  []net.Conn
	Heads  []string // "METHOD target body" of each request
	script func(c *PeerConn)
}

// PeerConn is a connection of a clientPeer.
type PeerConn struct {
	net.Conn
	Br     *bufio.Reader
	Peer   *ClientPeer
	Number int // from 1
}

// NewClientPeer starts a peer that runs script on each connection, which is
// closed afterwards.
func NewClientPeer(t testing.TB, script func(c *PeerConn)) *ClientPeer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return NewPeerOn(t, ln, script)
}

func NewPeerOn(t testing.TB, ln net.Listener, script func(c *PeerConn)) *ClientPeer {
	p := &ClientPeer{Ln: ln, script: script}
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		ln.Close()
		p.Mu.Lock()
		for _, c := range p.Conns {
			c.Close()
		}
		p.Mu.Unlock()
		running.Wait()
	})
	return p
}

func (p *ClientPeer) accept(running *sync.WaitGroup) {
	for {
		c, err := p.Ln.Accept()
		if err != nil {
			return
		}
		p.Mu.Lock()
		p.Conns = append(p.Conns, c)
		pc := &PeerConn{Conn: c, Br: bufio.NewReader(c), Peer: p, Number: len(p.Conns)}
		p.Mu.Unlock()
		running.Go(func() {
			defer c.Close()
			p.script(pc)
		})
	}
}

// Request reads a request with its body; nil: there is none.
func (c *PeerConn) Request() *sluice.Request {
	r := new(sluice.Request)
	if r.Read(c.Br) != nil {
		return nil
	}
	c.Peer.Mu.Lock()
	defer c.Peer.Mu.Unlock()
	c.Peer.Heads = append(c.Peer.Heads, string(r.Header.Method())+" "+string(r.Header.RequestURI())+" "+string(r.Body()))
	return r
}

// Send writes raw.
func (c *PeerConn) Send(raw string) { _, _ = io.WriteString(c.Conn, raw) }

// Reset closes the connection in disorder.
func (c *PeerConn) Reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// Gone waits until the client has closed the connection.
func (c *PeerConn) Gone() { _, _ = io.Copy(io.Discard, c.Br) }

func (p *ClientPeer) Addr() string { return p.Ln.Addr().String() }

func (p *ClientPeer) URL(path string) string { return "http://" + p.Addr() + path }

// Accepted returns how many connections there were.
func (p *ClientPeer) Accepted() int {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return len(p.Conns)
}

// Requests returns the requests that came.
func (p *ClientPeer) Requests() []string {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return append([]string(nil), p.Heads...)
}

// Host returns a client of the peer.
func (p *ClientPeer) Host() *sluice.HostClient { return &sluice.HostClient{Addr: p.Addr()} }

// NewCall returns a request and a response.
func NewCall(method, url string) (*sluice.Request, *sluice.Response) {
	req := new(sluice.Request)
	req.Header.SetMethod(method)
	req.SetRequestURI(url)
	return req, new(sluice.Response)
}

// RedirectNet routes all names to one peer, by the address dialed.
func RedirectNet(p *ClientPeer) *sluice.Client {
	return &sluice.Client{Dial: func(string) (net.Conn, error) { return net.Dial("tcp", p.Addr()) }}
}

// FreeAddr returns an address without a listener.
func FreeAddr(t *testing.T) string {
	t.Helper()
	addr, err := nettest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// SkipHead reads the head of a request, and not its body.
func (c *PeerConn) SkipHead() {
	for line, err := c.Br.ReadString('\n'); err == nil && line != "\r\n"; {
		line, err = c.Br.ReadString('\n')
	}
}
