package listen

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// listenLoopback listens on a free port of 127.0.0.1 until the test ends.
func listenLoopback(t *testing.T, o Options) net.Listener {
	t.Helper()
	ln, err := Listen(t.Context(), "tcp4", "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// exchange dials ln's address, sends "hello" and returns what ln's side has read.
func exchange(t *testing.T, ln net.Listener) string {
	t.Helper()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "hello"); err != nil {
		t.Fatal(err)
	}
	client.(*net.TCPConn).CloseWrite()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	got, err := io.ReadAll(server)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestListenConnects(t *testing.T) {
	for name, o := range map[string]Options{
		"plain":   {},
		"defer":   {DeferAccept: true},
		"fast":    {FastOpen: true},
		"backlog": {Backlog: 7},
	} {
		ln := listenLoopback(t, o)
		if _, ok := ln.(*net.TCPListener); !ok {
			t.Errorf("%s: listener is a %T", name, ln)
		}
		if got := exchange(t, ln); got != "hello" {
			t.Errorf("%s: read %q", name, got)
		}
	}
}

func TestListenReusePortSharesThePort(t *testing.T) {
	if !canReusePort {
		_, err := Listen(t.Context(), "tcp4", "127.0.0.1:0", Options{ReusePort: true})
		if !errors.Is(err, ErrReusePortUnsupported) {
			t.Fatalf("err %v", err)
		}
		return
	}
	first := listenLoopback(t, Options{ReusePort: true})
	second, err := Listen(t.Context(), "tcp4", first.Addr().String(), Options{ReusePort: true})
	if err != nil {
		t.Fatalf("second listener on %v: %v", first.Addr(), err)
	}
	first.Close()
	if got := exchange(t, second); got != "hello" {
		t.Errorf("read %q", got)
	}
	second.Close()
}

func TestListenWithoutReusePortIsExclusive(t *testing.T) {
	first := listenLoopback(t, Options{})
	second, err := Listen(t.Context(), "tcp4", first.Addr().String(), Options{ReusePort: canReusePort})
	if err == nil {
		second.Close()
		t.Fatal("two listeners on one port although the first did not allow it")
	}
}

func TestListenErrors(t *testing.T) {
	for _, c := range []struct{ network, addr, want string }{
		{"udp", "127.0.0.1:0", "unknown network"},
		{"unix", "/tmp/x", "unknown network"},
		{"", "127.0.0.1:0", "unknown network"},
		{"tcp4", "127.0.0.1", "missing port"},
		{"tcp4", "[::1]:0", "no suitable address"},
		{"tcp6", "127.0.0.1:0", "no suitable address"},
		{"tcp4", "127.0.0.1:70000", "invalid port"},
	} {
		ln, err := Listen(t.Context(), c.network, c.addr, Options{})
		if err == nil {
			ln.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: err %v, want %q", c.network, c.addr, err, c.want)
		}
	}
}

func TestListenHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ln, err := Listen(ctx, "tcp4", "localhost:0", Options{}); err == nil {
		ln.Close()
		t.Error("Listen with an ended context succeeded")
	}
}

// Only sockets of a group share a port. They can join as long as all have asked for it.
func TestPacket(t *testing.T) {
	alone, err := Packet(t.Context(), "udp4", "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	first, err := Packet(t.Context(), "udp4", "127.0.0.1:0", true)
	if !canReusePort {
		if !errors.Is(err, ErrReusePortUnsupported) {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, c := range []struct {
		addr     string
		hasGroup bool
		works    bool
	}{
		{first.LocalAddr().String(), true, true},
		{first.LocalAddr().String(), false, false},
		{alone.LocalAddr().String(), true, false},
	} {
		second, err := Packet(t.Context(), "udp4", c.addr, c.hasGroup)
		if (err == nil) != c.works {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			second.Close()
		}
	}
}
