package main

import (
	"io"
	"log"
	"net"
	"strings"
	"testing"

	"crypto/tls"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
)

// serveHTTP3 serves over TLS and QUIC at one address, until the test ends, and returns the URL.
func serveHTTP3(t *testing.T, handler sluice.RequestHandler) string {
	t.Helper()
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenPacket("udp", ln.Addr().String())
	if err != nil {
		t.Skip(err) // another program has the port
	}
	server := &sluice.Server{Handler: handler, StreamRequestBody: true, Logger: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	served := make(chan error, 1)
	go func() { served <- (&http3.Server{Server: server}).ServeTLS(ln, socket, "", "") }()
	t.Cleanup(func() {
		server.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "https://" + ln.Addr().String()
}

// TestGetHTTP3: --http3 speaks HTTP/3 if it is there first, and --http3-only nothing else.
func TestGetHTTP3(t *testing.T) {
	both := serveHTTP3(t, mirror)
	tcp := serveOn(t, &sluice.Server{Handler: mirror, StreamRequestBody: true, Logger: log.New(io.Discard, "", 0)}, true)
	for _, c := range []struct {
		name, flag, url string
		status          int
		stdout          string // how it begins
	}{
		{"both, preferred", "--http3", both, 0, "HTTP/3.0 200 "},
		{"both, only", "--http3-only", both, 0, "HTTP/3.0 200 "},
		{"TCP, preferred", "--http3", tcp, 0, "HTTP/1.1 200 OK"},
		{"plain text, only", "--http3-only", strings.Replace(tcp, "https", "http", 1), 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := get(t, c.flag, "-k", "-i", "-v", "--trace", "--repeat", "2", "-d", "body", c.url)
			if got.status != c.status || !strings.HasPrefix(got.stdout, c.stdout) {
				t.Errorf("exit status %d\n%s\n%s", got.status, got.stdout, got.stderr)
			}
			if c.status == 0 && !strings.Contains(got.stdout, "\n\nbody") {
				t.Errorf("no body\n%s", got.stdout)
			}
			for _, text := range []string{"over UDP", "over a new connection", "over the same connection", "connect "} {
				if c.status == 0 && !strings.Contains(got.stderr, text) {
					t.Errorf("%q is not in\n%s", text, got.stderr)
				}
			}
		})
	}
	for _, args := range [][]string{{"--http3", "--http3-only"}, {"--http2", "--http3-only"}, {"--http3", "--proxy", "localhost:1"}} {
		if got := get(t, append(args, both)...); got.status != 2 {
			t.Errorf("%s: exit status %d, %s", args, got.status, got.stderr)
		}
	}
}
