package enginetest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func tlsScenarios() []scenario {
	return []scenario{
		{"tls versions and resumption", testTLSVersions, handshakes},
		{"tls data behind the handshake", testTLSBehindHandshake, handshakes},
		{"tls records in pieces", testTLSRecordsInPieces, handshakes},
		{"tls without a closing alert", testTLSNoAlert, handshakes},
		{"tls damaged record", testTLSDamaged, handshakes},
		{"tls with a stranger", testTLSStranger, handshakes},
		{"tls and a deadline", testTLSDeadline, handshakes | deadlines | waits},
		{"handshakes that hang", testTLSHandshakesHang, handshakes | contended},
		{"handshakes at the limit", testTLSHandshakeLimit, handshakes},
	}
}

// tlsVersions are the ones that clients of the suite speak.
func tlsVersions() []uint16 { return []uint16{tls.VersionTLS12, tls.VersionTLS13} }

// dialTLS connects with a transport between TCP and TLS.
func (s *server) dialTLS(t *testing.T, version uint16, cache tls.ClientSessionCache, wrap func(net.Conn) net.Conn) (*peer, *tls.Conn) {
	t.Helper()
	c, err := loopback().Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := tls.Client(wrap(c), &tls.Config{
		InsecureSkipVerify: true, ServerName: "localhost",
		MinVersion: version, MaxVersion: version, ClientSessionCache: cache,
	})
	return newPeer(t, s, client), client
}

func unwrapped(c net.Conn) net.Conn { return c }

// testTLSVersions has connections with a full handshake and resumed ones.
func testTLSVersions(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = echoUntilEnd
	s := f.start(t, a, options())
	text := patternText(100_000)
	for _, version := range tlsVersions() {
		cache := tls.NewLRUClientSessionCache(4)
		for i := range 3 {
			p, client := s.dialTLS(t, version, cache, unwrapped)
			p.ask(t, "echo x", "x")
			if state := client.ConnectionState(); state.DidResume != (i > 0) || state.Version != version {
				t.Errorf("%s, connection %d: resumed %v, speaks %s", tls.VersionName(version), i, state.DidResume, tls.VersionName(state.Version))
			}
			sent := p.sendLater(frames("echo "+text, "gather 3 50000", "ready 3 50000", "echo y"))
			p.expect(t, text, patternText(150_000), patternText(150_000), "y")
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			switch i {
			case 0:
				p.ask(t, "close", "closing")
				p.expectEnd(t)
			case 1:
				p.send(t, frames("echo last"))
				p.closeWrite(t)
				p.expect(t, "last")
				p.expectEnd(t)
			default:
				p.ask(t, "detach", "detaching")
				p.exchange(t, "", text)
			}
			_ = p.Close()
		}
	}
}

// testTLSDeadline has idle connections end with a closing alert.
func testTLSDeadline(t *testing.T, f *fixture) {
	for _, isUsed := range []bool{false, true} {
		a := newAcceptor()
		a.idle = 50 * time.Millisecond
		s := f.start(t, a, options())
		var wire *nettest.AlertConn
		p, client := s.dialTLS(t, tls.VersionTLS13, nil, func(c net.Conn) net.Conn {
			wire = &nettest.AlertConn{Conn: c}
			return wire
		})
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		if isUsed {
			p.ask(t, "echo x", "x")
		}
		p.expect(t, "timeout")
		p.expectEnd(t)
		if !wire.EndedWithAlert() {
			t.Errorf("used: %v: there is no closing alert", isUsed)
		}
	}
}

// A corkedConn sends what was written when somebody reads: the peer gets in one
// piece what TLS writes in several.
type corkedConn struct {
	net.Conn
	mu      sync.Mutex
	pending []byte
}

// Write implements net.Conn.
func (c *corkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, p...)
	return len(p), nil
}

// Read implements net.Conn.
func (c *corkedConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	_, err := c.Conn.Write(c.pending)
	c.pending = nil
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// SetWriteDeadline does nothing: TLS sets one in the past behind its alert.
func (c *corkedConn) SetWriteDeadline(time.Time) error { return nil }

// testTLSBehindHandshake has requests, and the end, come together with the last
// bytes of the handshake. There will be no other sign of them.
func testTLSBehindHandshake(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for _, version := range tlsVersions() {
		for _, size := range []int{1, 3000, 40_000} {
			for _, ends := range []bool{false, true} {
				p, client := s.dialTLS(t, version, nil, func(c net.Conn) net.Conn { return &corkedConn{Conn: c} })
				if err := client.Handshake(); err != nil {
					t.Fatal(err)
				}
				text := patternText(size)
				p.send(t, frames("echo "+text, "echo y"))
				if ends {
					p.closeWrite(t)
				}
				p.expect(t, text, "y")
				if ends {
					p.expectEnd(t)
				} else {
					p.ask(t, "echo z", "z")
				}
				_ = p.Close()
			}
		}
	}
}

// A piecewiseConn writes in pieces of size bytes.
type piecewiseConn struct {
	net.Conn
	size int
}

// Write implements net.Conn.
func (c *piecewiseConn) Write(p []byte) (int, error) {
	written := 0
	for pieces := 0; written < len(p); pieces++ {
		n, err := c.Conn.Write(p[written:min(written+c.size, len(p))])
		if written += n; err != nil {
			return written, err
		}
		if pieces%8 == 0 {
			pause()
		}
	}
	return written, nil
}

// testTLSRecordsInPieces cuts handshakes and records where TLS would not.
func testTLSRecordsInPieces(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	var all sync.WaitGroup
	for _, version := range tlsVersions() {
		for _, size := range []int{1, 3, 7, 100} {
			p, _ := s.dialTLS(t, version, nil, func(c net.Conn) net.Conn { return &piecewiseConn{c, size} })
			all.Go(func() {
				for i := range 3 {
					text := fmt.Sprint(size, " round ", i)
					if got, err := p.roundTrip(text); err != nil || got != text {
						t.Errorf("pieces of %d: got %s and %v, want %q", size, shortened(got), err, text)
						return
					}
				}
				if err := p.Conn.(*tls.Conn).CloseWrite(); err != nil {
					t.Error(err)
				}
				if got, err := p.receive(); err == nil || isPatienceOver(err) {
					t.Errorf("pieces of %d: got %s and %v, want the end", size, shortened(got), err)
				}
			})
		}
	}
	all.Wait()
}

// testTLSNoAlert has peers close TCP alone, between frames, where nothing is
// lost by that, and within one.
func testTLSNoAlert(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i, version := range tlsVersions() {
		p, client := s.dialTLS(t, version, nil, unwrapped)
		p.ask(t, "echo x", "x")
		s.eventuallyIdle(t, 1)
		_ = client.NetConn().Close()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(2*i+1) })
		p, client = s.dialTLS(t, version, nil, unwrapped)
		p.ask(t, "echo x", "x")
		p.send(t, []byte("6:e"))
		s.eventually(t, "input was taken", func() bool { return s.stats().Active == 1 })
		_ = client.NetConn().Close()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(2*i+2) })
	}
	for i, err := range s.closeErrors() {
		if i%2 == 0 && err != nil {
			t.Errorf("connection %d: Closed(%v)", i, err)
		}
	}
}

// testTLSDamaged has a record that cannot be decrypted follow a good one.
func testTLSDamaged(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i, version := range tlsVersions() {
		p, client := s.dialTLS(t, version, nil, unwrapped)
		p.ask(t, "echo x", "x")
		record := append([]byte{23, 3, 3, 0, 64}, bytes.Repeat([]byte{7}, 64)...)
		if _, err := client.NetConn().Write(record); err != nil {
			t.Fatal(err)
		}
		p.expectGone(t)
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
		if s.closeErrors()[i] == nil {
			t.Error("Closed(nil) after a damaged record")
		}
	}
}

// testTLSStranger has peers that do not speak TLS, or go away.
func testTLSStranger(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i, first := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", ""} {
		c, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := c.Read(make([]byte, 1000)); isPatienceOver(err) {
				t.Errorf("a stranger got neither an answer nor the end%s", s.state())
			}
		}
		_ = c.Close()
		s.eventually(t, "Release", func() bool { return s.released.Load() == int64(i+1) })
	}
	s.connect(t).ask(t, "echo x", "x")
	if n := s.opened.Load(); n != 1 {
		t.Errorf("Open was called %d times", n)
	}
}

// testTLSHandshakesHang has many peers that never say anything. Others are not
// kept from theirs.
func testTLSHandshakesHang(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const count = 64
	for range count {
		c, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	s.eventually(t, "all admitted", func() bool { return s.admitted.Load() == count })
	for range 4 {
		s.connect(t).ask(t, "echo x", "x")
	}
	s.eventually(t, "Stats", func() bool { return s.stats().Open == count+4 })
}

// testTLSHandshakeLimit has peers that send a ClientHello, and nothing after it. One more than
// the limit ends the oldest, and honest peers are served meanwhile.
func testTLSHandshakeLimit(t *testing.T, f *fixture) {
	const limit, more = 4, 3
	o := options()
	o.MaxHandshakes = limit
	s := f.start(t, newAcceptor(), o)
	var silent []net.Conn
	for range limit + more {
		silent = append(silent, s.beginHandshake(t))
	}
	for _, c := range silent[:more] {
		s.expectEnded(t, c)
	}
	expect := func(open int, dropped uint64) {
		t.Helper()
		s.eventually(t, "the oldest are closed, and no other", func() bool {
			stats := s.stats()
			return stats.Handshakes == open && stats.HandshakesDropped == dropped && s.released.Load() == int64(dropped)
		})
	}
	expect(limit, more)
	s.connect(t).ask(t, "echo x", "x")
	s.expectEnded(t, silent[more])
	expect(limit-1, more+1)
	for _, c := range silent {
		_ = c.Close()
	}
	s.eventually(t, "Release", func() bool { return s.released.Load() == limit+more })
	if n := s.opened.Load(); n != 1 {
		t.Errorf("Open was called %d times", n)
	}
}

// beginHandshake connects and sends a ClientHello. The server has answered it.
func (s *server) beginHandshake(t *testing.T) net.Conn {
	t.Helper()
	c, err := loopback().Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(nettest.ClientHello(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatalf("the ClientHello got no answer: %v%s", err, s.state())
	}
	return c
}

// expectEnded expects that the server closes a connection.
func (s *server) expectEnded(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); isPatienceOver(err) {
		t.Errorf("the connection was not closed%s", s.state())
	}
}
