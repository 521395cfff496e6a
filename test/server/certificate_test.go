package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

func TestGenerateTestCertificate(t *testing.T) {
	for host, name := range map[string]string{"localhost": "localhost", "127.0.0.1": "127.0.0.1", "[::1]": "::1", "::1": "::1"} {
		certPEM, keyPEM, err := sluice.GenerateTestCertificate(host)
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
	if certPEM, keyPEM, err := sluice.GenerateTestCertificate(""); err != nil || len(certPEM) == 0 || len(keyPEM) == 0 {
		t.Errorf("without a host: %v", err)
	}
}

// What a certificate says of itself.
func TestTestCertificateTemplate(t *testing.T) {
	parse := func(host string) *x509.Certificate {
		certPEM, _, err := sluice.GenerateTestCertificate(host)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(certPEM)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	c := parse("[::1")
	if len(c.DNSNames) != 1 || c.DNSNames[0] != "[::1" || len(c.IPAddresses) != 0 {
		t.Errorf("half a bracket: %q, %v", c.DNSNames, c.IPAddresses)
	}
	if c.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign || !c.IsCA || !c.BasicConstraintsValid {
		t.Errorf("usage %b, authority %v, %v", c.KeyUsage, c.IsCA, c.BasicConstraintsValid)
	}
	if off := c.NotAfter.Sub(c.NotBefore.Add(time.Hour).AddDate(1, 0, 0)).Abs(); off > 2*time.Hour { // summer time may begin or end
		t.Errorf("valid from %v until %v", c.NotBefore, c.NotAfter)
	}
	for range 30 {
		if n := parse("h").SerialNumber.BitLen(); n > 120 {
			t.Fatalf("a serial number of %d bits", n)
		}
	}
	if certPEM, keyPEM, err := sluice.GenerateTestCertificate("b\u00fccher.test"); err == nil || !strings.HasPrefix(err.Error(), "sluice: signing a certificate: ") || certPEM != nil || keyPEM != nil {
		t.Errorf("a name that is not ASCII: %v", err)
	}
}
