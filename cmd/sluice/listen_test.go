package main

import (
	"net"
	"strings"
	"testing"
)

func TestServedURLs(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80":   "http://127.0.0.1:80",
		"192.0.2.7:8080": "http://192.0.2.7:8080",
		"[::1]:8080":     "http://[::1]:8080",
		"0.0.0.0:8080":   "http://localhost:8080",
		"[::]:8080":      "http://localhost:8080",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		url, others := servedURLs("http", tcp)
		if url != want {
			t.Errorf("%s: %s, want %s", addr, url, want)
		}
		if len(others) > 0 && !tcp.IP.IsUnspecified() {
			t.Errorf("%s: others are told of %q", addr, others)
		}
		for _, other := range others {
			if !strings.HasSuffix(other, ":8080") || strings.Contains(other, "//127.") || strings.Contains(other, "[::1]") {
				t.Errorf("%s: others are told of %s", addr, other)
			}
		}
	}
}

// TestAllAddresses: the server on all addresses is reached by what it says.
func TestAllAddresses(t *testing.T) {
	p := start(t, "--addr", ":0")
	if !strings.HasPrefix(p.url, "http://localhost:") {
		t.Errorf("it serves %s", p.url)
	}
	if _, body := p.ask(t, "GET", "/plaintext"); body != "Hello, World!" {
		t.Error(body)
	}
}
