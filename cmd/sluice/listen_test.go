package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/prefork"
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

// TestServedSockets: a unix socket has no URL.
func TestServedSockets(t *testing.T) {
	for _, name := range []string{"/run/web.sock", "@abstract"} {
		if url, others := servedURLs("http", &net.UnixAddr{Net: "unix", Name: name}); url != "unix:"+name || len(others) > 0 {
			t.Errorf("%s: %s, %q", name, url, others)
		}
	}
}

// TestExplainListen: what is wrong with an address is said with what to do. Other errors stay.
func TestExplainListen(t *testing.T) {
	o := &serveOptions{addr: ":80", admin: ":81"}
	refused := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	closed := &os.PathError{Op: "open", Path: "/key", Err: syscall.EACCES}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("a worker: %w", refused), "cannot listen on :80: permission denied; ports below 1024 need root, or CAP_NET_BIND_SERVICE"},
		{refused, "cannot listen on :80: permission denied; ports below 1024 need root, or CAP_NET_BIND_SERVICE"},
		{prefork.ErrOverRecovery, "too many workers died at the start: the lines above say how"},
		{closed, closed.Error()},
		{&net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}, "cannot listen on :80: listen tcp: bind: cannot assign requested address"},
		{fmt.Errorf("sluice: Admin :81: %w", refused), "cannot listen on --admin :81: permission denied; ports below 1024 need root, or CAP_NET_BIND_SERVICE"},
	} {
		if err := o.explainListen(c.err); err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.err, err, c.want)
		}
	}
	if o.explainListen(nil) != nil {
		t.Error("an error of none")
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
