package main

import (
	"crypto/tls"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Workers have the certificate that their master has ordered, once, the later ones too. Each of
// them answers the authority.
func TestACMEPrefork(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	port, cache := freePort(t), t.TempDir()
	a := startAuthority(t, port, freePort(t), time.Hour)
	t.Setenv("SSL_CERT_FILE", a.file)
	p := startPreforked(t, "--prefork", "3", "--addr", "127.0.0.1:"+port, "--acme", "a.example", "--acme-directory", a.url, "--acme-cache", cache, "--admin", "127.0.0.1:0")
	var clients sync.WaitGroup
	for range 24 { // of all workers, most likely
		clients.Go(func() {
			conn, err := dialFor(port, &tls.Config{ServerName: "a.example", RootCAs: a.roots})
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		})
	}
	clients.Wait()
	first := a.handshake(t, port, "a.example")
	p.Process.Signal(syscall.SIGHUP)
	eventually(t, "end of the rolling restart", func() bool { return strings.Contains(p.text(), "rolling restart is done") })
	for range 8 {
		if !a.handshake(t, port, "a.example").Equal(first) {
			t.Fatal("another certificate after a rolling restart")
		}
	}
	if got := a.orders.Load(); got != 1 {
		t.Errorf("%d orders", got)
	}
	_, admin, _ := strings.Cut(p.text(), "status and metrics: ")
	admin, _, _ = strings.Cut(admin, "\n")
	resp, err := client().Get("http://" + admin + "/metrics")
	if _, text := answer(t, resp, err); !strings.Contains(text, `sluice_tls_certificate_expiry_seconds{name="a.example"} `) {
		t.Errorf("no age of the certificate in %s", text)
	}
}

// With --upgrade one process answers an authority by HTTP, and another one orders.
func TestACMEUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	port, plain := freePort(t), freePort(t)
	a := startAuthority(t, freePort(t), plain, time.Hour)
	t.Setenv("SSL_CERT_FILE", a.file)
	startPreforked(t, "--upgrade", "--addr", "127.0.0.1:"+port, "--https-redirect", "127.0.0.1:"+plain, "--acme", "a.example", "--acme-directory", a.url, "--acme-cache", t.TempDir())
	a.handshake(t, port, "a.example")
}
