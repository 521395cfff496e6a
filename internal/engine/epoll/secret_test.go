//go:build linux && (amd64 || arm64)

package epoll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// serverTLS returns a configuration for servers that any client accepts that
// does not look.
func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
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
	eventually(t, "they are there", func() bool { return d.open.Load() == 5 })
	for range 3 {
		ask(t, c, "still there")
	}
}

// What a configuration's callback keeps of a connection is that connection's,
// also when it has ended and its conn is another one's.
func TestHelloConnOutlives(t *testing.T) {
	ln, kept := listen(t), make(chan net.Conn, 2)
	config := serverTLS(t)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		kept <- hello.Conn
		return nil, nil
	}
	d := serveOn(t, &engine.TLSListener{Listener: ln, Config: config}, newEcho(), engine.Options{})
	first := dialTLS(t, ln)
	ask(t, first, "one")
	old := <-kept
	_ = first.Close()
	eventually(t, "the end", func() bool { return d.open.Load() == 0 })
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
	d := serveOn(t, tlsListener, newEcho(), engine.Options{HandshakeTimeout: 200 * time.Millisecond})
	dial(t, ln)
	eventually(t, "it is there", func() bool { return d.open.Load() == 1 })
	eventually(t, "the time-out", func() bool {
		d.Range(func(c engine.Conn) bool {
			c.Prompter().Prompt()
			return true
		})
		return d.open.Load() == 0
	})
}
