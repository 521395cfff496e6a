package harness

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TLSConfigs returns configurations of a server with a certificate for host, and
// of its clients.
func TLSConfigs(t testing.TB, host string) (server, client *tls.Config) {
	t.Helper()
	certPEM, keyPEM, err := sluice.GenerateTestCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, &tls.Config{RootCAs: roots}
}

// CertificateFor makes a key pair for host and a client that trusts it.
func CertificateFor(t *testing.T, host string) (certPEM, keyPEM []byte, client *tls.Config) {
	t.Helper()
	certPEM, keyPEM, err := sluice.GenerateTestCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certPEM) {
		t.Fatal("the certificate cannot be trusted")
	}
	return certPEM, keyPEM, &tls.Config{RootCAs: roots, ServerName: host}
}

// OverTLS is a network whose connections are encrypted: in memory by a listener
// of the test's, elsewhere by the server.
func OverTLS(t *testing.T, under Network, protocols ...string) Network {
	certPEM, keyPEM, client := CertificateFor(t, "localhost")
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	client.NextProtos = protocols
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: append([]string{"http/1.1"}, protocols...)}
	n := Network{Name: "tls/" + under.Name, Engine: under.Engine, Secure: config, Compact: under.Compact}
	isByListener := under.Name == InMemory().Name
	if isByListener {
		n.Secure = nil
	}
	n.Listen = func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		ln, dial := under.Listen(t)
		if isByListener {
			ln = tls.NewListener(ln, config)
		}
		return ln, func() (net.Conn, error) {
			c, err := dial()
			if err != nil {
				return nil, err
			}
			return tls.Client(c, client), nil
		}
	}
	return n
}

// UnderTLS are the networks that TLS is tested over.
func UnderTLS() []Network {
	return append(OverTCPByEach(), append(WithCompactTLS(), InMemory())...)
}

// WithCompactTLS is the network whose connections of TLS are compact; none where there is no
// event engine.
func WithCompactTLS() []Network {
	if !HasEpoll() {
		return nil
	}
	n := OverTCP().By(sluice.EngineEpoll)
	n.Name, n.Compact = n.Name+"/compact", true
	return []Network{n}
}

// OverTLSEach is OverTLS over each network.
func OverTLSEach(t *testing.T, under []Network, protocols ...string) (all []Network) {
	for _, n := range under {
		all = append(all, OverTLS(t, n, protocols...))
	}
	return all
}

// OnEachSecureNetwork is OnEachNetwork with TLS.
func OnEachSecureNetwork(t *testing.T, test func(t *testing.T, n Network)) {
	t.Helper()
	for _, under := range UnderTLS() {
		t.Run(under.Name, func(t *testing.T) { test(t, OverTLS(t, under)) })
	}
}
