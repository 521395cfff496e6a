package sluice

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
)

func TestGenerateTestCertificate(t *testing.T) {
	for host, name := range map[string]string{"localhost": "localhost", "127.0.0.1": "127.0.0.1", "[::1]": "::1", "::1": "::1"} {
		certPEM, keyPEM, err := GenerateTestCertificate(host)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok || key.Curve != elliptic.P256() {
			t.Errorf("%q: the key is %T", host, pair.PrivateKey)
		}
		if !strings.HasPrefix(string(certPEM), "-----BEGIN CERTIFICATE-----\n") || !strings.HasPrefix(string(keyPEM), "-----BEGIN PRIVATE KEY-----\n") {
			t.Errorf("%q: %.40s, %.40s", host, certPEM, keyPEM)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(certPEM) {
			t.Fatal("the certificate is not taken as a root")
		}
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%q: %v", host, err)
		}
		if err := certificate.VerifyHostname("other.example"); err == nil {
			t.Errorf("%q: valid for another host", host)
		}
	}
	if certPEM, keyPEM, err := GenerateTestCertificate(""); err != nil || len(certPEM) == 0 || len(keyPEM) == 0 {
		t.Errorf("without a host: %v", err)
	}
}
