package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// get asks the server that serve runs with the given files.
func get(t *testing.T, certFile, keyFile string, config *tls.Config) (string, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln, certFile, keyFile) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + ln.Addr().String())
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestCertificateMadeAtStart(t *testing.T) {
	body, err := get(t, "", "", &tls.Config{InsecureSkipVerify: true})
	if err != nil || !strings.HasPrefix(body, "TLS 1.3, ") {
		t.Errorf("got %q, %v", body, err)
	}
	if _, err := get(t, "", "", &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}); err == nil {
		t.Error("TLS 1.2 was accepted, TLSConfig wants 1.3")
	}
}

// TestFiles trusts the certificate, as clients of a real one do.
func TestFiles(t *testing.T) {
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.WriteFile(certFile, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	body, err := get(t, certFile, keyFile, &tls.Config{RootCAs: roots})
	if err != nil || !strings.HasPrefix(body, "TLS 1.3, ") {
		t.Errorf("got %q, %v", body, err)
	}
}
