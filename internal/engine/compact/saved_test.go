package compact

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"reflect"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// A connection goes to another process with all that a program can ask about it.
func TestSave(t *testing.T) {
	client := clientConfig()
	client.NextProtos = []string{"h2"}
	for _, auth := range []tls.ClientAuthType{tls.NoClientCert, tls.RequireAndVerifyClientCert} {
		server := serverConfig(t)
		server.NextProtos, server.ClientAuth = []string{"h2"}, auth
		if auth != tls.NoClientCert {
			client.Certificates = []tls.Certificate{clientCertificate(t)}
			server.ClientCAs = x509.NewCertPool()
			server.ClientCAs.AddCert(client.Certificates[0].Leaf)
		}
		near, far := shake(t, NewListener(server), client)
		c, ok := near.(*Conn)
		if !ok {
			t.Fatalf("it is a %T", near)
		}
		want := c.ConnectionState()
		var state tls13.State
		facts := c.Pause(&state)
		if !facts.CanSave() {
			t.Fatal("it cannot be saved")
		}
		saved := facts.Append(nil, &state)
		facts.Drop()
		var table Table
		moved, facts, err := table.Parse(saved)
		if err != nil || moved != state {
			t.Fatal(err)
		}
		again, err := NewConn(c.below, &moved, facts)
		if err != nil {
			t.Fatal(err)
		}
		got := again.ConnectionState()
		if len(got.VerifiedChains) != len(want.VerifiedChains) || len(got.PeerCertificates) != len(want.PeerCertificates) {
			t.Errorf("%d certificates and %d chains", len(got.PeerCertificates), len(got.VerifiedChains))
		}
		for i, chain := range want.VerifiedChains {
			for k, one := range chain {
				if !got.VerifiedChains[i][k].Equal(one) {
					t.Errorf("chain %d differs at %d", i, k)
				}
			}
		}
		if _, err := got.ExportKeyingMaterial("label", nil, 16); err == nil {
			t.Error("it exports keys")
		}
		bare := func(s tls.ConnectionState) (r [9]any) {
			return [9]any{s.Version, s.CipherSuite, s.CurveID, s.NegotiatedProtocol, s.ServerName, s.DidResume, s.HelloRetryRequest, s.ECHAccepted, s.HandshakeComplete}
		}
		if !reflect.DeepEqual(bare(got), bare(want)) {
			t.Errorf("%v became %v", bare(want), bare(got))
		}
		echo(t, again, far)
	}
}

// Append makes room for all before the secrets, so that it leaves no copy of them.
func TestAppendLeavesNoSecrets(t *testing.T) {
	secret := bytes.Repeat([]byte("secret. "), 4)
	state, err := tls13.NewState(tls13.AES128GCM, secret, secret, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	leaf := clientCertificate(t).Leaf
	for _, said := range []tls.ConnectionState{{ServerName: "a"}, {PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}} {
		facts := &Facts{state: said}
		size := len(facts.Append(nil, &state))
		if most, _ := facts.savedSize(); size > most {
			t.Errorf("%d bytes, at most %d were announced", size, most)
		}
		for room := range size {
			dst := make([]byte, room)
			if facts.Append(dst[:0], &state); bytes.Contains(dst, secret[:8]) {
				t.Fatalf("room for %d bytes of %d has secrets", room, size)
			}
		}
	}
}

// What is malformed is refused, whatever is cut or changed.
func TestParseSaved(t *testing.T) {
	s, err := tls13.NewState(tls13.AES128GCM, make([]byte, 32), make([]byte, 32), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	leaf := clientCertificate(t).Leaf
	facts := &Facts{state: tls.ConnectionState{ServerName: "a", PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}}
	good := facts.Append(nil, &s)
	var table Table
	if _, _, err := table.Parse(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if _, _, err := table.Parse(good[:i]); err == nil {
			t.Errorf("%d bytes of %d are enough", i, len(good))
		}
	}
	if _, _, err := table.Parse(append(good, 0)); !errors.Is(err, ErrSaved) {
		t.Errorf("with a byte more: %v", err)
	}
	other := append([]byte{SavedVersion + 1}, good[1:]...)
	if _, _, err := table.Parse(other); !errors.Is(err, ErrSaved) {
		t.Errorf("another version: %v", err)
	}
	many := &Facts{}
	for range maxCerts + 1 {
		many.state.PeerCertificates = append(many.state.PeerCertificates, leaf)
	}
	if many.CanSave() {
		t.Error("many certificates can be saved")
	}
}

func FuzzParseSaved(f *testing.F) {
	s, err := tls13.NewState(tls13.ChaCha20, make([]byte, 32), make([]byte, 32), 1, 2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add((&Facts{state: tls.ConnectionState{ServerName: "name", NegotiatedProtocol: "h2"}}).Append(nil, &s))
	f.Fuzz(func(t *testing.T, p []byte) {
		var table Table
		state, facts, err := table.Parse(p)
		if err != nil {
			return
		}
		again, facts2, err := table.Parse(facts.Append(nil, &state))
		if err != nil || again != state || facts2.state.ServerName != facts.state.ServerName {
			t.Fatalf("% x is not read again: %v", p, err)
		}
	})
}
