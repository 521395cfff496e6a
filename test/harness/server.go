package harness

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ServeUntilEnd serves until the test ends.
func ServeUntilEnd(t testing.TB, s *sluice.Server, ln net.Listener) {
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

// HTTP2Client returns a client that speaks only HTTP/2 with r.
func (r *Rig) HTTP2Client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) {
		c, err := r.Connect()
		if secure, ok := c.(*tls.Conn); ok {
			err = secure.Handshake()
		}
		return c, err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, DialContext: dial, DialTLSContext: dial}
	r.T.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: Patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Frames opens a connection of HTTP/2.
func (r *Rig) Frames(settings ...http2.Setting) *Framer {
	r.T.Helper()
	p := r.Dial()
	f := &Framer{Framer: http2.NewFramer(p.Conn, p.R), t: r.T, Conn: p.Conn, table: hpack.NewDecoder(4096, nil)}
	f.encoder = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = f.table
	p.Send(http2.ClientPreface)
	f.Must(f.WriteSettings(settings...))
	return f
}

// AdoptBy returns what HandOver is to call for s to serve the connection on.
func AdoptBy(t *testing.T, s *sluice.Server) func(net.Conn, sluice.Parcel) {
	return func(c net.Conn, p sluice.Parcel) {
		if err := s.Control().AdoptConn(c, p); err != nil {
			t.Errorf("AdoptConn: %v", err)
		}
	}
}

// AdoptSocketBy is AdoptBy by descriptor.
func AdoptSocketBy(t *testing.T, s *sluice.Server) func(net.Conn, sluice.Parcel) {
	return func(c net.Conn, p sluice.Parcel) {
		defer c.Close()
		if err := s.Control().AdoptSocket(DuplicateOf(t, c), p); err != nil {
			t.Errorf("AdoptSocket: %v", err)
		}
	}
}

// DuplicateOf returns another descriptor, which the caller owns, of c's open file.
func DuplicateOf(t *testing.T, c net.Conn) int {
	t.Helper()
	file, err := c.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return Duplicate(int(file.Fd()))
}

// A Rig is a server that serves for one test.
type Rig struct {
	T      *testing.T
	Server *sluice.Server
	Ln     net.Listener
	Connect
	Log    *LogBook
	Served chan error

	mu    sync.Mutex
	peers []net.Conn
}

type Connect func() (net.Conn, error)

// Serve has s serve on n until the test ends. Then all connections must be
// closed and counted out.
func Serve(t *testing.T, n Network, s *sluice.Server) *Rig {
	t.Helper()
	served := make(chan error, 1)
	r := &Rig{T: t, Server: s, Log: &LogBook{}, Served: served}
	if s.Logger == nil {
		s.Logger = r.Log
	}
	if n.Engine != sluice.EngineAuto && s.Engine == sluice.EngineAuto {
		s.Engine = n.Engine
	}
	r.Ln, r.Connect = n.Listen(t)
	if n.Secure != nil {
		s.TLSConfig, s.CompactTLS = n.Secure, n.Compact
		go func() { served <- s.ServeTLS(r.Ln, "", "") }()
	} else {
		go func() { served <- s.Serve(r.Ln) }()
	}
	t.Cleanup(r.Stop)
	return r
}

// Stop ends the rig; it may be called again.
func (r *Rig) Stop() {
	r.T.Helper()
	r.mu.Lock()
	peers, served := r.peers, r.Served
	r.peers, r.Served = nil, nil
	r.mu.Unlock()
	if served == nil {
		return
	}
	for _, p := range peers {
		p.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := r.Server.ShutdownWithContext(ctx); err != nil {
		r.T.Errorf("Shutdown: %v", err)
	}
	r.Ln.Close()
	if err := Receive(r.T, served); err != nil {
		r.T.Errorf("Serve returned %v", err)
	}
	// Hijackers are not waited for by Shutdown.
	Eventually(r.T, "no connection is counted", func() bool {
		return r.Server.GetOpenConnectionsCount() == 0 && r.Server.GetCurrentConcurrency() == 0
	})
}

// Dial opens a connection that is closed when the test ends.
func (r *Rig) Dial() *Peer {
	r.T.Helper()
	c, err := r.Connect()
	if err != nil {
		r.T.Fatal(err)
	}
	r.mu.Lock()
	r.peers = append(r.peers, c)
	r.mu.Unlock()
	return NewPeer(r.T, c)
}

// ConnectAndGet is a GET on a connection of its own; it returns the status.
func (r *Rig) ConnectAndGet() int {
	r.T.Helper()
	p := r.Dial()
	defer p.Close()
	_, _ = io.WriteString(p.Conn, Get("/")) // a refused connection may be closed already
	return p.Answer("GET").StatusCode
}

// Exchange sends script on a connection of its own and returns everything that
// comes back until the server closes that.
func (r *Rig) Exchange(script string) string {
	r.T.Helper()
	p := r.Dial()
	defer p.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(p.Conn, script) // a server may close before it has read all
	}()
	raw := p.Rest()
	p.Close()
	<-sent
	return WithoutDates(raw)
}

// Shutdown has s shut down in the background.
func Shutdown(s *sluice.Server) <-chan error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown() }()
	return stopped
}

// RefusesConnections waits until nobody accepts any more, which says that a
// Shutdown is under way.
func (r *Rig) RefusesConnections() {
	r.T.Helper()
	Eventually(r.T, "the listener is closed", func() bool {
		c, err := r.Connect()
		if err != nil {
			return true
		}
		c.Close()
		return false
	})
}
