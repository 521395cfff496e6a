package reuseport

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine/listen"
)

func TestListenSharesThePort(t *testing.T) {
	first, err := Listen("tcp4", "127.0.0.1:0")
	if runtime.GOOS == "windows" {
		var unsupported *ErrNoReusePort
		if !errors.As(err, &unsupported) {
			t.Fatalf("err %v, want an *ErrNoReusePort", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Listen("tcp4", first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()

	// Whichever socket the kernel picks, every connection is served.
	for _, ln := range []net.Listener{first, second} {
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					io.Copy(c, c)
					c.Close()
				}()
			}
		}()
	}
	for range 20 {
		c, err := net.Dial("tcp4", first.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "echo")
		c.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(c)
		if err != nil || string(got) != "echo" {
			t.Errorf("read %q, %v", got, err)
		}
		c.Close()
	}
}

func TestListenErrors(t *testing.T) {
	for _, c := range []struct{ network, addr string }{
		{"udp", "127.0.0.1:0"}, {"unix", "/tmp/x"}, {"tcp4", "nonsense"}, {"tcp4", "[::1]:0"},
	} {
		ln, err := Listen(c.network, c.addr)
		if err == nil {
			ln.Close()
			t.Errorf("%s %s: no error", c.network, c.addr)
		}
		if ln != nil {
			t.Errorf("%s %s: a %T beside the error", c.network, c.addr, ln)
		}
	}
}

func TestErrNoReusePort(t *testing.T) {
	for _, err := range []error{&ErrNoReusePort{}, &ErrNoReusePort{listen.ErrReusePortUnsupported}} {
		if !strings.Contains(err.Error(), "SO_REUSEPORT") {
			t.Errorf("Error() = %q", err)
		}
	}
	if !errors.Is(&ErrNoReusePort{listen.ErrReusePortUnsupported}, listen.ErrReusePortUnsupported) {
		t.Error("the cause is not reachable")
	}
}
