package compact

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// A watched is a net.Conn with a Handshake between crypto/tls and the socket.
type watched struct {
	net.Conn
	handshake *Handshake // nil: it has ended
	ahead     []byte     // received in the handshake
	reads     int        // of Conn
}

func (w *watched) Read(p []byte) (int, error) {
	switch {
	case len(w.ahead) > 0:
		n := copy(p, w.ahead)
		w.ahead = w.ahead[n:]
		return n, nil
	case w.handshake == nil:
		return w.receive(p)
	}
	return w.handshake.Read(p, w.receive)
}

func (w *watched) receive(p []byte) (int, error) {
	w.reads++
	return w.Conn.Read(p)
}

func (w *watched) Write(p []byte) (int, error) {
	if w.handshake != nil && w.handshake.Withholds(p) {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

func (w *watched) CompactHandshake() *Handshake { return w.handshake }

// serverConfig returns a configuration with a certificate.
func serverConfig(t testing.TB) *tls.Config {
	t.Helper()
	certificate, err := selfsigned.New("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}}
}

// clientConfig returns a configuration that trusts anybody.
func clientConfig() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}
}

// shake makes a handshake. The server's end is a *Conn, or a *tls.Conn if it cannot be one.
func shake(t testing.TB, l *Listener, client *tls.Config) (near net.Conn, far *tls.Conn) {
	t.Helper()
	other, below := nettest.TCPPair(t)
	far = tls.Client(other, client)
	near = shakeOver(t, l, below, func() {
		if err := far.Handshake(); err != nil {
			t.Error(err)
		}
	})
	return near, far
}

// shakeOver makes the server's part of a handshake, and client runs beside it.
func shakeOver(t testing.TB, l *Listener, below net.Conn, client func()) net.Conn {
	t.Helper()
	w := &watched{Conn: below, handshake: l.Begin()}
	server := tls.Server(w, l.Config())
	var both sync.WaitGroup
	both.Go(client)
	err := server.Handshake()
	both.Wait()
	c, ahead, failure := w.handshake.End(server, w)
	w.handshake, w.ahead = nil, ahead
	if err := errors.Join(err, failure); err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return server
	}
	return c
}

// encryptedHelloKey returns a key for Encrypted Client Hello, with its ECHConfig: X25519,
// HKDF-SHA256, AES-128-GCM.
func encryptedHelloKey(t testing.TB) tls.EncryptedClientHelloKey {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const name = "public.example"
	contents := []byte{1, 0, 0x20, 0, 32}
	contents = append(contents, key.PublicKey().Bytes()...)
	contents = append(contents, 0, 4, 0, 1, 0, 1, 32, byte(len(name)))
	contents = append(append(contents, name...), 0, 0)
	config := append([]byte{0xfe, 0x0d, 0, byte(len(contents))}, contents...)
	return tls.EncryptedClientHelloKey{Config: config, PrivateKey: key.Bytes()}
}

// clientCertificate returns a certificate of its own authority, for clients.
func clientCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
