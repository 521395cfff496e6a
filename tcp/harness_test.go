package tcp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/tcp"
	"github.com/sluicehttp/sluice/tcplisten"
)

// patience bounds waits for what must happen.
const patience = 20 * time.Second

// A network is a kind of connection to serve.
type network struct {
	name   string
	tls    *tls.Config // the server's; nil: none
	listen func(t *testing.T) (net.Listener, func() (net.Conn, error))
	// isBuffered: written data is in transit although the peer does not read.
	isBuffered bool
}

// A fixture is an engine and a network to test a Server with.
type fixture struct {
	engine  tcp.Engine
	network network
}

// eachFixture runs test on all engines and networks.
func eachFixture(t *testing.T, test func(t *testing.T, f fixture)) {
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		for _, n := range networks(t) {
			t.Run(e.String()+"/"+n.name, func(t *testing.T) {
				t.Parallel()
				test(t, fixture{e, n})
			})
		}
	}
}

// eachEngine runs test on all engines, with TCP.
func eachEngine(t *testing.T, test func(t *testing.T, f fixture)) {
	eachFixture(t, func(t *testing.T, f fixture) {
		if f.network.name != "tcp" {
			t.SkipNow()
		}
		test(t, f)
	})
}

func networks(t *testing.T) []network {
	t.Helper()
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return []network{
		{name: "tcp", listen: listenTCP, isBuffered: true},
		{
			name: "tls", tls: &tls.Config{Certificates: []tls.Certificate{pair}}, isBuffered: true,
			listen: func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
				ln, _ := listenTCP(t)
				return ln, func() (net.Conn, error) {
					return tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
				}
			},
		},
		{name: "pipe", listen: func(*testing.T) (net.Listener, func() (net.Conn, error)) {
			ln := nettest.NewListener()
			return ln, ln.Dial
		}},
	}
}

func listenTCP(t *testing.T) (net.Listener, func() (net.Conn, error)) {
	t.Helper()
	ln, err := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
}

// running is a Server that serves.
type running struct {
	*tcp.Server
	dial   func() (net.Conn, error)
	addr   string
	served chan error
}

// start serves with s, on f's engine and network, until the test ends.
func (f fixture) start(t *testing.T, s *tcp.Server) *running {
	t.Helper()
	s.Engine, s.TLSConfig = f.engine, f.network.tls
	if s.Logger == nil {
		s.Logger = log.New(failingWriter{t}, "", 0)
	}
	ln, dial := f.network.listen(t)
	r := &running{s, dial, ln.Addr().String(), make(chan error, 1)}
	go func() { r.served <- s.Serve(ln) }()
	t.Cleanup(func() {
		r.shutdown(t)
		if err := <-r.served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	eventually(t, "the engine", func() bool { return s.Stats().Engine != "" })
	if got := s.Stats().Engine; got != f.engine.String() {
		t.Skipf("engine %v does not work here", f.engine)
	}
	return r
}

func (r *running) shutdown(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
}

// failingWriter fails the test when something is logged.
type failingWriter struct{ t *testing.T }

func (w failingWriter) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("epoll does not work")) { // start skips the test then
		w.t.Errorf("logged: %s", p)
	}
	return len(p), nil
}

// connect returns a client's connection, which gives up after patience.
func (r *running) connect(t *testing.T) *client {
	t.Helper()
	conn, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &client{conn}
}

// A client is the other end of a served connection.
type client struct{ net.Conn }

func (c *client) send(t *testing.T, p string) {
	t.Helper()
	if _, err := io.WriteString(c, p); err != nil {
		t.Fatalf("cannot send: %v", err)
	}
}

// expect reads want.
func (c *client) expect(t *testing.T, want string) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience)) // many others may have come before
	got := make([]byte, len(want))
	n, err := io.ReadFull(c, got)
	if err != nil || string(got) != want {
		t.Fatalf("got %.80q, %v, want %.80q", got[:n], err, want)
	}
}

// ask sends p while it reads want.
func (c *client) ask(t *testing.T, p, want string) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, p)
		sent <- err
	}()
	c.expect(t, want)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// expectEnd reads until the server has closed, wants rest before that, and
// closes its own end, which the server may be waiting for.
func (c *client) expectEnd(t *testing.T, rest string) {
	t.Helper()
	got, err := io.ReadAll(c)
	defer c.Close()
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		t.Fatal("the connection is open")
	}
	if string(got) != rest {
		t.Fatalf("got %.80q, %v, want %.80q", got, err, rest)
	}
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: waiting for %s", what)
		}
	}
}

// ends collects what OnClose gets.
type ends chan error

func (e ends) onClose(_ *tcp.Conn, err error) { e <- err }

// expect waits for the next end.
func (e ends) expect(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-e:
		if !errors.Is(err, want) {
			t.Errorf("OnClose got %v, want %v", err, want)
		}
	case <-time.After(patience):
		t.Fatalf("OnClose was not called; want it to get %v", want)
	}
}

// A journal is a Logger for expected lines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) logger() *log.Logger { return log.New(j, "", 0) }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
