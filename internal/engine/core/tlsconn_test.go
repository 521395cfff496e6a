//go:build linux && (amd64 || arm64)

package core

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// serverTLS returns a configuration for servers that any client accepts that
// does not look.
func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	certificate, err := selfsigned.New("")
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}}
}

func dialTLS(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	c := tls.Client(dial(t, ln), &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Clients that connect and are silent do not take the workers from the others.
func TestSilentHandshakes(t *testing.T) {
	ln := listen(t)
	tlsListener := &engine.TLSListener{Listener: ln, Config: serverTLS(t)}
	d := serveOn(t, tlsListener, newEcho(), engine.Options{MaxWorkers: 2, HandshakeTimeout: time.Minute})
	c := dialTLS(t, ln)
	ask(t, c, "hello")
	for range 4 {
		dial(t, ln)
	}
	eventually(t, "they are there", func() bool { return d.countOpen() == 5 })
	for range 3 {
		ask(t, c, "still there")
	}
}

// What comes in one piece with the end of a handshake is the session's, whether it becomes
// compact or not.
func TestInputWithHandshake(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ln := listen(t)
		d := serveCompact(t, ln, newEcho())
		config := &tls.Config{InsecureSkipVerify: true, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		for i := range 3 { // the client of TLS 1.2 speaks last if it resumes a session
			c := tls.Client(&nettest.CorkedConn{Conn: dial(t, ln)}, config)
			ask(t, c, "hello")
			ask(t, c, "hello again")
			if state := c.ConnectionState(); state.Version != version || state.DidResume != (i > 0) {
				t.Errorf("%+v", state)
			}
		}
		if compact := d.Stats().Compact; compact != int(version-tls.VersionTLS12)*3 {
			t.Errorf("%d connections are compact", compact)
		}
	}
}

// serveKeeping serves TLS, and returns what the configuration's callback keeps of
// each connection.
func serveKeeping(t *testing.T) (*driver, net.Listener, <-chan net.Conn) {
	t.Helper()
	ln, kept := listen(t), make(chan net.Conn, 2)
	config := serverTLS(t)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		kept <- hello.Conn
		return nil, nil
	}
	return serveOn(t, &engine.TLSListener{Listener: ln, Config: config}, newEcho(), engine.Options{}), ln, kept
}

// What a configuration's callback keeps of a connection is that connection's,
// also when it has ended and its conn is another one's.
func TestHelloConnOutlives(t *testing.T) {
	d, ln, kept := serveKeeping(t)
	first := dialTLS(t, ln)
	ask(t, first, "one")
	old := <-kept
	_ = first.Close()
	eventually(t, "the end", func() bool { return d.countOpen() == 0 })
	second := dialTLS(t, ln)
	ask(t, second, "two")
	if got := old.RemoteAddr().String(); got == second.LocalAddr().String() {
		t.Errorf("the first connection has the address of the second, %v", got)
	}
	_ = old.Close()
	ask(t, second, "three")
}

// A prompt before the handshake has nobody to go to, nor does it keep the
// connection from timing out.
func TestPromptBeforeHandshake(t *testing.T) {
	ln := listen(t)
	tlsListener := &engine.TLSListener{Listener: ln, Config: serverTLS(t)}
	a := newEcho()
	d := serveOn(t, tlsListener, a, engine.Options{HandshakeTimeout: 200 * time.Millisecond})
	dial(t, ln)
	eventually(t, "the time-out", func() bool {
		d.Range(func(c engine.Conn) bool {
			c.Prompter().Prompt()
			return true
		})
		return len(a.released) == 1
	})
}

// detachTLS returns both ends of a TLS connection that the engine has given
// away.
func detachTLS(t *testing.T) (mine, peer net.Conn) {
	t.Helper()
	ln, detached, leave := listen(t), make(chan net.Conn, 1), make(chan bool)
	a := &script{
		run: func(c *conn, out []byte) ([]byte, engine.Next) {
			return append(out, inputOf(c)...), engine.Detach
		},
		detached: func(c net.Conn) {
			detached <- c
			<-leave
		},
	}
	serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, a, engine.Options{})
	t.Cleanup(func() { close(leave) })
	peer = dialTLS(t, ln)
	ask(t, peer, "detach")
	mine = <-detached
	t.Cleanup(func() { _ = mine.Close() })
	return mine, peer
}

// A TLS connection that is given away has the deadlines, addresses and ends of
// any other.
func TestDetachedTLS(t *testing.T) {
	past, never := time.Unix(1, 0), time.Time{}
	for name, c := range map[string]struct {
		set, undo     func(net.Conn) error
		reads, writes bool // are bounded
	}{
		"read":  {func(c net.Conn) error { return c.SetReadDeadline(past) }, func(c net.Conn) error { return c.SetReadDeadline(never) }, true, false},
		"both":  {func(c net.Conn) error { return c.SetDeadline(past) }, func(c net.Conn) error { return c.SetDeadline(never) }, true, true},
		"write": {func(c net.Conn) error { return c.SetWriteDeadline(past) }, func(c net.Conn) error { return c.SetWriteDeadline(never) }, false, true},
	} {
		mine, peer := detachTLS(t)
		if got, want := mine.RemoteAddr().String(), peer.LocalAddr().String(); got != want {
			t.Errorf("RemoteAddr %v, want %v", got, want)
		}
		if got, want := mine.LocalAddr().String(), peer.RemoteAddr().String(); got != want {
			t.Errorf("LocalAddr %v, want %v", got, want)
		}
		if err := c.set(mine); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.reads {
			if n, err := mine.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: Read returned %d, %v", name, n, err)
			}
		}
		_, err := mine.Write([]byte("more"))
		if errors.Is(err, os.ErrDeadlineExceeded) != c.writes {
			t.Errorf("%s: Write returned %v", name, err)
		}
		if err := c.undo(mine); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = peer.Write([]byte("yes"))
		expect(t, mine, "yes")
		if !c.writes { // crypto/tls does not write after a time-out
			expect(t, peer, "more")
		}
		_ = mine.Close()
		_ = peer.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := peer.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: after Close the peer read %d bytes and %v", name, n, err)
		}
	}
}

// The connection beneath the TLS of one that was given away closes by halves.
func TestDetachedTLSClosesByHalves(t *testing.T) {
	mine, peer := detachTLS(t)
	under := mine.(*tls.Conn).NetConn().(interface{ CloseWrite() error })
	if err := under.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := peer.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the peer read %d bytes and %v", n, err)
	}
	_, _ = peer.Write([]byte("still"))
	expect(t, mine, "still")
}

// What a configuration's callback has kept does not read and write while the
// engine does.
func TestHelloConnIsTheEngines(t *testing.T) {
	d, ln, kept := serveKeeping(t)
	peer := dialTLS(t, ln)
	ask(t, peer, "one")
	eventually(t, "it waits", func() bool { return d.Stats().Active == 0 })
	c := <-kept
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != net.ErrClosed {
		t.Errorf("Read returned %d, %v", n, err)
	}
	if n, err := c.Write([]byte("x")); n != 0 || err != net.ErrClosed {
		t.Errorf("Write returned %d, %v", n, err)
	}
	for _, set := range []func(time.Time) error{c.SetDeadline, c.SetReadDeadline, c.SetWriteDeadline} {
		if err := set(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != errEngineReads {
		t.Errorf("CloseWrite returned %v", err)
	}
	if got, want := c.RemoteAddr().String(), peer.LocalAddr().String(); got != want {
		t.Errorf("RemoteAddr %v, want %v", got, want)
	}
	if got, want := c.LocalAddr().String(), peer.RemoteAddr().String(); got != want {
		t.Errorf("LocalAddr %v, want %v", got, want)
	}
	ask(t, peer, "two")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the end", func() bool { return d.countOpen() == 0 })
}

// While a file is sent, the time-out of a write begins again when the peer takes
// some of it; otherwise, and where the peer takes nothing, it does not.
func TestTLSWriteTimeoutRestarts(t *testing.T) {
	const since = 12345 // of the time-out that runs
	for _, c := range []struct{ hasFile, progresses, restarts bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := swept()
		one := &conn{connState: connState{
			driver: d, place: d.table.open(pair[0]), fd: pair[0], writeTimeout: int64(time.Hour), wait: waitRoom, writeBy: since,
		}}
		one.tlsConn = &tlsConn{conn: one, pending: make([]byte, 64<<20)}
		if c.hasFile {
			one.file = engine.File{Source: os.Stdin, Size: 1}
		}
		if !c.progresses {
			for err == nil {
				_, err = syscall.Write(pair[0], make([]byte, 64<<10))
			}
		}
		if one.tlsConn.drain() || !one.isBlocked() {
			t.Error("there was room for everything")
		}
		if restarts := one.writeBy != since; restarts != c.restarts {
			t.Errorf("%+v: the time-out begins again: %v", c, restarts)
		}
		_ = syscall.Close(pair[0])
		_ = syscall.Close(pair[1])
	}
}

// Handshakes that are over count for MaxWorkers again.
func TestHandshakesAreExemptOnce(t *testing.T) {
	ln := listen(t)
	d := serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, newEcho(), engine.Options{MaxWorkers: 1, Loops: 1})
	for range 3 {
		ask(t, dialTLS(t, ln), "x")
	}
	q := &d.loops[0].queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.absent != 0 {
		t.Errorf("%d workers do not count although no handshake goes on", q.absent)
	}
}

// Records that found no room before go out ahead of what is written now, and a
// failure to send them is the writer's.
func TestTLSWritesPendingFirst(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[0])
	d := swept()
	s := &tlsConn{conn: &conn{connState: connState{driver: d, place: d.table.open(pair[0]), fd: pair[0]}}, waits: true}
	s.pending = []byte("first ")
	if n, err := s.Write([]byte("second")); n != 6 || err != nil || len(s.pending) != 0 {
		t.Errorf("Write returned %d, %v; %q is pending", n, err, s.pending)
	}
	got := make([]byte, 20)
	if n, _ := syscall.Read(pair[1], got); string(got[:n]) != "first second" {
		t.Errorf("the peer got %q", got[:n])
	}
	_ = syscall.Close(pair[1])
	s.pending = []byte("third")
	if n, err := s.Write([]byte("fourth")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("without a peer: Write returned %d, %v", n, err)
	}
}
