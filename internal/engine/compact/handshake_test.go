package compact

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// Which connections become compact, and what is said of them.
func TestHandshake(t *testing.T) {
	cache := tls.NewLRUClientSessionCache(1)
	for _, c := range []struct {
		name           string
		server, client func(*tls.Config)
		isCompact      bool
		check          func(tls.ConnectionState) bool
	}{
		{"plain", nil, nil, true, func(s tls.ConnectionState) bool { return s.ServerName == "localhost" && !s.DidResume }},
		{"without tickets", func(c *tls.Config) { c.SessionTicketsDisabled = true }, nil, true, nil},
		{"ALPN", func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }, func(c *tls.Config) { c.NextProtos = []string{"h2"} }, true,
			func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "h2" }},
		{"a first one", nil, func(c *tls.Config) { c.ClientSessionCache = cache }, true, func(s tls.ConnectionState) bool { return !s.DidResume }},
		{"a resumed one", nil, func(c *tls.Config) { c.ClientSessionCache = cache }, true, func(s tls.ConnectionState) bool { return s.DidResume }},
		{"another key share is asked for", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP521} }, nil, true,
			func(s tls.ConnectionState) bool { return s.CurveID == tls.CurveP521 && s.HelloRetryRequest }},
		{"a client's certificate", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			func(c *tls.Config) { c.Certificates = serverConfig(t).Certificates }, true,
			func(s tls.ConnectionState) bool { return len(s.PeerCertificates) == 1 }},
		{"no certificate of the client", func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }, nil, true,
			func(s tls.ConnectionState) bool { return len(s.PeerCertificates) == 0 }},
		{"TLS 1.2", nil, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, false, nil},
		{"another configuration", func(c *tls.Config) {
			other := serverConfig(t)
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return other, nil }
		}, nil, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := serverConfig(t), clientConfig()
			server.SetSessionTicketKeys([][32]byte{{1}})
			if c.server != nil {
				c.server(server)
			}
			if c.client != nil {
				c.client(client)
			}
			l := NewListener(server)
			near, far := shake(t, l, client)
			if _, ok := near.(*Conn); ok != c.isCompact {
				t.Fatalf("it is a %T", near)
			}
			if len(l.waiting) > 0 {
				t.Errorf("%d handshakes are under way", len(l.waiting))
			}
			echo(t, near, far)
			state := near.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState()
			if !state.HandshakeComplete || c.check != nil && !c.check(state) {
				t.Errorf("%+v", state)
			}
			if _, err := state.ExportKeyingMaterial("label", nil, 16); c.isCompact && err == nil {
				t.Error("it exports keys")
			}
		})
	}
}

// echo sends both ways, and closes both ways.
func echo(t testing.TB, near net.Conn, far *tls.Conn) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(near, near)
		if half, ok := near.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		done <- err
	}()
	go func() {
		_, err := far.Write(data)
		if err == nil {
			err = far.CloseWrite()
		}
		done <- err
	}()
	if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Data that comes in one piece with the end of the handshake is the Conn's.
func TestDataBehindHandshake(t *testing.T) {
	l := NewListener(serverConfig(t))
	other, below := nettest.TCPPair(t)
	corked := &corkedConn{Conn: other}
	far := tls.Client(corked, clientConfig())
	near := shakeOver(t, l, below, func() {
		if err := far.Handshake(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if _, err := far.Write([]byte("at once ")); err != nil {
				t.Error(err)
			}
		}
		corked.flush()
	})
	if _, ok := near.(*Conn); !ok {
		t.Fatalf("it is a %T", near)
	}
	got := make([]byte, 24)
	if _, err := io.ReadFull(near, got); err != nil || string(got) != "at once at once at once " {
		t.Errorf("%q, %v", got, err)
	}
}

// A corkedConn sends what was written when it reads: all in one piece.
type corkedConn struct {
	net.Conn
	pending []byte
}

func (c *corkedConn) Write(p []byte) (int, error) {
	c.pending = append(c.pending, p...)
	return len(p), nil
}

func (c *corkedConn) Read(p []byte) (int, error) {
	c.flush()
	return c.Conn.Read(p)
}

func (c *corkedConn) flush() {
	_, _ = c.Conn.Write(c.pending)
	c.pending = nil
}

// Handshakes with one random at one time are not compact: one of them may be an attacker who
// has read the other's.
func TestSharedRandom(t *testing.T) {
	random := [randomSize]byte{1, 2, 3}
	line := func(label, secret string) []byte {
		return []byte(label + " " + "0102030000000000000000000000000000000000000000000000000000000000" + " " + strings.Repeat(secret, 32) + "\n")
	}
	const client, server = "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"
	tell := func(l *Listener, secret string) {
		for _, label := range []string{client, server, "CLIENT_HANDSHAKE_TRAFFIC_SECRET"} {
			if _, err := l.Write(line(label, secret)); err != nil {
				t.Error(err)
			}
		}
	}
	take := func(l *Listener, want int) {
		t.Helper()
		if told := l.take(random); told.in.size != want || told.out.size != want {
			t.Errorf("secrets of %d and %d bytes, want %d", told.in.size, told.out.size, want)
		}
	}
	l := NewListener(&tls.Config{})
	l.register(random)
	tell(l, "aa")
	take(l, 32)

	l.register(random)
	tell(l, "aa")
	l.register(random)
	take(l, 0)
	tell(l, "bb")
	take(l, 0)

	// A handshake that is not registered under this random tells its secrets.
	for range 2 {
		l.register(random)
		tell(l, "bb")
		tell(l, "aa")
		take(l, 0)
	}
	l.register(random)
	tell(l, "aa")
	take(l, 32)
	tell(l, "bb") // no handshake waits
	if len(l.waiting) > 0 {
		t.Errorf("%d handshakes are under way", len(l.waiting))
	}
	for _, bad := range []string{"", client, client + " ", client + " 01 02\n", string(line(client, "xx")), string(line(client, "aaaaaa"))} {
		l.register(random)
		if n, err := l.Write([]byte(bad)); n != len(bad) || err != nil {
			t.Errorf("%q: %d, %v", bad, n, err)
		}
		take(l, 0)
	}
}

// The program's own log gets all lines.
func TestLogOfTheProgram(t *testing.T) {
	var log, far bytes.Buffer
	server, client := serverConfig(t), clientConfig()
	server.KeyLogWriter, client.KeyLogWriter = &log, &far
	l := NewListener(server)
	near, _ := shake(t, l, client)
	if _, ok := near.(*Conn); !ok {
		t.Fatalf("it is a %T", near)
	}
	if log.String() != far.String() || !strings.Contains(log.String(), "SERVER_TRAFFIC_SECRET_0") {
		t.Errorf("the server has logged\n%s the client\n%s", &log, &far)
	}
	if server.KeyLogWriter != &log {
		t.Error("the program's configuration has changed")
	}
}

// Secrets that an attacker has told for the random of a handshake do not become its own, if
// it tells none itself.
func TestForeignSecrets(t *testing.T) {
	other := serverConfig(t)
	config := serverConfig(t)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return other, nil }
	l := NewListener(config)
	far, below := nettest.TCPPair(t)
	client := tls.Client(far, clientConfig())
	w := &watched{below, &Handshake{Listener: l}}
	server := tls.Server(w, l.Config())
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	random := w.handshake.random()
	for _, label := range []string{"SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} {
		if _, err := fmt.Fprintf(l, "%s %x %s\n", label, random, strings.Repeat("ab", 32)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := w.handshake.End(server); ok {
		t.Error("the connection goes on with the secrets of an attacker")
	}
}

// A handshake that fails leaves nothing behind.
func TestHandshakeFails(t *testing.T) {
	l := NewListener(serverConfig(t))
	for _, sends := range []string{"", "GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 100), "\x16\x03\x01\x00\x26\x01\x00\x00\x22\x03\x03" + strings.Repeat("r", 40), "\x16\x03\x01\x00\x01\x01" + strings.Repeat("x", 100)} {
		other, below := nettest.TCPPair(t)
		w := &watched{below, &Handshake{Listener: l}}
		server := tls.Server(w, l.Config())
		if _, err := io.WriteString(other, sends); err != nil {
			t.Fatal(err)
		}
		if err := other.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := server.Handshake(); err == nil {
			t.Errorf("%q is a handshake", sends)
		}
		if _, _, ok := w.handshake.End(server); ok {
			t.Errorf("%q became compact", sends)
		}
		if len(l.waiting) > 0 {
			t.Errorf("%q: %d handshakes are under way", sends, len(l.waiting))
		}
	}
}

// Connections share their facts, which go with the last of them.
func TestFacts(t *testing.T) {
	l := NewListener(serverConfig(t))
	var all []*Conn
	for range 3 {
		near, _ := shake(t, l, clientConfig())
		all = append(all, near.(*Conn))
	}
	other := clientConfig()
	other.ServerName = "other.example"
	near, _ := shake(t, l, other)
	all = append(all, near.(*Conn))
	if all[0].facts != all[1].facts || all[0].facts != all[2].facts || all[0].facts == all[3].facts || len(l.facts.all) != 2 {
		t.Errorf("%d facts", len(l.facts.all))
	}
	for _, c := range all {
		c.End()
	}
	if len(l.facts.all) != 0 {
		t.Errorf("%d facts are left", len(l.facts.all))
	}
}
