package shared

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// newCertificate returns a certificate for "localhost".
func newCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	certificate := Must(selfsigned.New("localhost"))
	roots := x509.NewCertPool()
	roots.AddCert(Must(x509.ParseCertificate(certificate.Certificate[0])))
	return certificate, roots
}

// handshake makes a connection and reports whether it resumed a session.
func handshake(t *testing.T, server, client *tls.Config) bool {
	t.Helper()
	listener := Must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	go func() {
		if accepted, err := listener.Accept(); err == nil {
			conn := tls.Server(accepted, server)
			_, _ = conn.Write([]byte("x")) // the ticket is sent before it
			_, _ = conn.Read(make([]byte, 1))
			_ = accepted.Close()
		}
	}()
	raw := Must(net.Dial("tcp", listener.Addr().String()))
	defer raw.Close()
	conn := tls.Client(raw, client)
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return conn.ConnectionState().DidResume
}

// Clients connect to four processes in turn, and the keys are rotated in between: at
// least 95 % of the sessions are resumed.
func TestTicketsAreResumed(t *testing.T) {
	certificate, roots := newCertificate(t)
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t, 8)
			master := Must(s.TicketKeys("tls"))
			var servers [4]*tls.Config
			for i := range servers {
				keys := Must(Must(Attach(s.File())).TicketKeys("tls"))
				config := &tls.Config{Certificates: []tls.Certificate{certificate}, MaxVersion: version}
				if !keys.Install(config) {
					t.Fatal("not installed")
				}
				servers[i] = config.Clone() // as Server does
			}
			// A server that chooses a configuration for each client.
			chosen := &tls.Config{Certificates: []tls.Certificate{certificate}, MaxVersion: version}
			servers[3] = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }}
			Must(Must(Attach(s.File())).TicketKeys("tls")).Install(servers[3])
			client := &tls.Config{RootCAs: roots, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(10)}
			resumed := 0
			for i := range 200 {
				if i%50 == 25 {
					if err := master.Rotate(); err != nil {
						t.Fatal(err)
					}
				}
				if handshake(t, servers[i%4], client) {
					resumed++
				}
			}
			t.Logf("%d of 200 resumed", resumed)
			if resumed < 190 {
				t.Errorf("%d of 200 resumed", resumed)
			}
		})
	}
}

// A ticket is valid for two rotations, not for three.
func TestTicketKeysAreForgotten(t *testing.T) {
	certificate, roots := newCertificate(t)
	s := newLocal(t)
	keys := Must(s.TicketKeys("tls"))
	server := &tls.Config{Certificates: []tls.Certificate{certificate}}
	keys.Install(server)
	for rotations := range 5 {
		client := &tls.Config{RootCAs: roots, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(10)}
		handshake(t, server, client)
		for range rotations {
			if err := keys.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := handshake(t, server, client), rotations < 3; got != want {
			t.Errorf("resumed after %d rotations: %v", rotations, got)
		}
	}
}

// If the keys are damaged, a process uses its own and goes on.
func TestDamagedTicketKeys(t *testing.T) {
	certificate, roots := newCertificate(t)
	for name, damage := range map[string]func(c *Config){
		"nothing is there": func(c *Config) { c.Store(nil) },
		"half a key":       func(c *Config) { c.Store(make([]byte, ticketKeyBytes-1)) },
		"a wrong length":   func(c *Config) { c.bufferOf(c.Version())[0].Store(1 << 40) },
	} {
		t.Run(name, func(t *testing.T) {
			keys := Must(newLocal(t).TicketKeys("tls"))
			server := &tls.Config{Certificates: []tls.Certificate{certificate}}
			keys.Install(server)
			damage(keys.config)
			if got := keys.Keys(); len(got) != 0 {
				t.Errorf("%d keys", len(got))
			}
			client := &tls.Config{RootCAs: roots, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(10)}
			handshake(t, server, client)
			if !handshake(t, server, client) {
				t.Error("not resumed by the same process")
			}
			if err := keys.Rotate(); err != nil || len(keys.Keys()) == 0 {
				t.Errorf("after a rotation there are %d keys: %v", len(keys.Keys()), err)
			}
			handshake(t, server, client) // the new keys
			if !handshake(t, server, client) {
				t.Error("not resumed after a rotation")
			}
		})
	}
}

// One shared key is enough for all processes.
func TestOneTicketKey(t *testing.T) {
	certificate, roots := newCertificate(t)
	s := newLocal(t)
	mine, theirs := Must(s.TicketKeys("tls")), Must(attachAgain(t, s, 999_999_999).TicketKeys("tls"))
	if err := mine.config.Store(randomKeys(1)); err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: roots, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(10)}
	for i, keys := range []*TicketKeys{mine, theirs} {
		server := &tls.Config{Certificates: []tls.Certificate{certificate}}
		keys.Install(server)
		if isResumed := handshake(t, server, client); isResumed != (i == 1) {
			t.Errorf("handshake %d is resumed: %v", i, isResumed)
		}
	}
}

// The default interval of rotations is twelve hours.
func TestTicketRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := Must(newLocal(t).TicketKeys("tls"))
		ctx, cancel := context.WithCancel(t.Context())
		go keys.RotateEvery(ctx, 0)
		for version := uint64(1); version < 4; version++ {
			time.Sleep(12*time.Hour - 1)
			synctest.Wait()
			if n := keys.Version(); n != version {
				t.Errorf("version %d before the rotation, want %d", n, version)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		cancel()
		time.Sleep(24 * time.Hour)
		if n := keys.Version(); n != 4 {
			t.Errorf("version %d after three rotations and the end", n)
		}
	})
}

func TestTicketKeys(t *testing.T) {
	s := newLocal(t)
	keys, theirs := Must(s.TicketKeys("tls")), Must(attachAgain(t, s, 999_999_999).TicketKeys("tls"))
	before := keys.Keys()
	if len(before) != 3 || before[0] == before[1] || before[0] == [32]byte{} {
		t.Fatalf("%d keys", len(before))
	}
	version := theirs.Version()
	ctx, cancel := context.WithCancel(t.Context())
	go keys.RotateEvery(ctx, time.Millisecond)
	for theirs.Version() == version {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if after := theirs.Keys(); len(after) != 3 || after[0] == before[0] {
		t.Error("the keys were not rotated")
	}
	for name, config := range map[string]*tls.Config{
		"tickets disabled": {SessionTicketsDisabled: true},
		"wraps itself":     {WrapSession: func(tls.ConnectionState, *tls.SessionState) ([]byte, error) { return nil, nil }},
	} {
		if keys.Install(config) {
			t.Errorf("installed although it has %s", name)
		}
	}
}
