package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
)

// fullListener returns an address that connections to hang at: its queue is
// full. Elsewhere a full queue refuses.
func fullListener(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	raw, _ := ln.(*net.TCPListener).SyscallConn()
	raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) })
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		conn, err := net.DialTimeout("tcp", ln.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return ln.Addr().String()
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("the queue does not fill")
	return ""
}

// TestDialInterruptsTheSystem: what the fake network above does, the system
// does too.
func TestDialInterruptsTheSystem(t *testing.T) {
	addr := fullListener(t)
	_, port, _ := net.SplitHostPort(addr)
	named := &sluice.TCPDialer{Resolver: resolvesTo("127.0.0.2", "127.0.0.1")}
	for _, d := range []*sluice.TCPDialer{{}, {DisableDNSResolution: true}, named} {
		addrs := []string{addr}
		if d == named {
			addrs = append(addrs, "host.test:"+port)
		}
		for _, addr := range addrs {
			_, err := d.DialTimeout(addr, 20*time.Millisecond)
			if !errors.Is(err, sluice.ErrDialTimeout) || clock.IsTimeout(err) {
				t.Errorf("%+v %s: error %v, want ErrDialTimeout alone", d, addr, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err = d.DialContext(ctx, addr)
			var phase *sluice.PhaseError
			if !errors.As(err, &phase) || phase.Phase != sluice.PhaseDial || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error %v, want PhaseDial, canceled", addr, err)
			}
		}
	}
}

// TestDialFromLocalAddr: Linux has all of 127.0.0.0/8.
func TestDialFromLocalAddr(t *testing.T) {
	port := listenTCP(t, "127.0.0.1:0")
	for _, unresolved := range []bool{false, true} {
		d := &sluice.TCPDialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, DisableDNSResolution: unresolved}
		conn, err := d.Dial("127.0.0.1:" + port)
		if err != nil {
			t.Fatal(err)
		}
		told, _ := io.ReadAll(conn)
		conn.Close()
		if want := "127.0.0.1:" + port + " to 127.0.0.9:"; !strings.HasPrefix(string(told), want) {
			t.Errorf("the peer says %q, want %q", told, want)
		}
	}
}
