package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
)

// writePair writes a certificate for host and its key to two files.
func writePair(t *testing.T, dir, host string) (cert, key string) {
	t.Helper()
	certPEM, keyPEM, err := sluice.GenerateTestCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, content := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// certificateName returns for which name the server has a certificate.
func (p *process) certificateName(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return strings.Join(conn.ConnectionState().PeerCertificates[0].DNSNames, " ")
}

func TestCertificateFiles(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine ...string) {
		pair := t.TempDir()
		cert, key := writePair(t, pair, "first.example")
		p := start(t, append(engine, tree(t, map[string]string{"a": "content"}), "--tls-cert", cert, "--tls-key", key)...)
		if _, body := p.ask(t, "GET", "/a"); body != "content" || !strings.HasPrefix(p.url, "https://") {
			t.Fatalf("%s: %q", p.url, body)
		}
		if name := p.certificateName(t); name != "first.example" {
			t.Errorf("certificate for %q", name)
		}
		// What cannot be read changes nothing.
		if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Skip(err)
		}
		p.logLine(t, "the certificate stays as it was")
		if name := p.certificateName(t); name != "first.example" {
			t.Errorf("after a failed reload: certificate for %q", name)
		}
		writePair(t, pair, "second.example")
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if line := p.logLine(t, "certificate reloaded"); !strings.Contains(line, "for second.example until ") {
			t.Errorf("it says %s", line)
		}
		if name := p.certificateName(t); name != "second.example" {
			t.Errorf("after the reload: certificate for %q", name)
		}
		if err := p.interrupt(t, os.Interrupt); err != nil {
			t.Error(err)
		}
	})
}
