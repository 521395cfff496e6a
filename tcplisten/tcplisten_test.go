package tcplisten

import (
	"io"
	"net"
	"runtime"
	"testing"
)

func TestNewListener(t *testing.T) {
	configs := []Config{
		{},
		{DeferAccept: true},
		{FastOpen: true},
		{Backlog: 32},
	}
	if runtime.GOOS != "windows" {
		configs = append(configs, Config{ReusePort: true}, Config{ReusePort: true, DeferAccept: true, FastOpen: true, Backlog: 32})
	}
	for _, cfg := range configs {
		for range 2 { // a Config makes many listeners
			roundTrip(t, &cfg)
		}
	}
}

func roundTrip(t *testing.T, cfg *Config) {
	t.Helper()
	ln, err := cfg.NewListener("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%+v: %v", *cfg, err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "hello")
	client.(*net.TCPConn).CloseWrite()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if got, err := io.ReadAll(server); err != nil || string(got) != "hello" {
		t.Errorf("%+v: read %q, %v", *cfg, got, err)
	}
}

func TestNewListenerSharesThePortOnlyIfBothAsk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SO_REUSEPORT")
	}
	shared := &Config{ReusePort: true}
	first, err := shared.NewListener("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := shared.NewListener("tcp4", first.Addr().String())
	if err != nil {
		t.Fatalf("second listener: %v", err)
	}
	second.Close()
	if third, err := (&Config{}).NewListener("tcp4", first.Addr().String()); err == nil {
		third.Close()
		t.Error("a listener without ReusePort took a port in use")
	}
}

func TestNewListenerErrors(t *testing.T) {
	for _, c := range []struct{ network, addr string }{
		{"udp", "127.0.0.1:0"}, {"tcp4", "127.0.0.1"}, {"tcp6", "127.0.0.1:0"},
	} {
		if ln, err := (&Config{}).NewListener(c.network, c.addr); err == nil {
			ln.Close()
			t.Errorf("%s %s: no error", c.network, c.addr)
		}
	}
}
