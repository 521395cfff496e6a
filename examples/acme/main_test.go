package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicehttp/sluice"
	"golang.org/x/crypto/acme/autocert"
)

// A certificate that is in the cache is used, and no other host is served.
func TestACME(t *testing.T) {
	dir := t.TempDir()
	cert, key, err := sluice.GenerateTestCertificate("www.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "www.example.org"), append(key, cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	m := &autocert.Manager{
		Cache:      autocert.DirCache(dir),
		HostPolicy: autocert.HostWhitelist("www.example.org"),
		Prompt:     func(string) bool { t.Error("it asks for a certificate"); return false },
	}
	go server(m).ServeTLS(ln, "", "")

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	for host, want := range map[string]string{"www.example.org": "Hello from www.example.org!\n", "other.example.org": ""} {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: host},
			ForceAttemptHTTP2: true,
		}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequest(http.MethodGet, "https://"+ln.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			if want != "" || errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", host, err)
			}
			continue
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != want || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s %q, want %q", host, resp.Proto, got, want)
		}
	}
}
