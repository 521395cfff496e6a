package main

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice/internal/process/systemd"
)

// TestHTTP3: the server is on the same port of UDP, says so over TCP, and ends in order.
func TestHTTP3(t *testing.T) {
	for name, args := range map[string][]string{"alone": nil, "with workers": {"--prefork=2"}} {
		t.Run(name, func(t *testing.T) {
			if len(args) > 0 && runtime.GOOS != "linux" {
				t.Skip("needs Linux")
			}
			p := start(t, append(args, "--tls-self-signed", "--http3")...)
			p.logLine(t, "HTTP/3 is served")
			resp, err := client().Get(p.url + "/plaintext")
			if status, _ := answer(t, resp, err); status != 200 {
				t.Fatalf("over TCP: %d", status)
			}
			at, err := url.Parse(p.url)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := resp.Header.Get("Alt-Svc"), `h3=":`+at.Port()+`"; ma=86400`; got != want {
				t.Errorf("Alt-Svc %s, want %s", got, want)
			}
			for range 4 {
				quic := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				c := &http.Client{Transport: quic, Timeout: processBound}
				resp, err := c.Get(p.url + "/plaintext")
				if status, body := answer(t, resp, err); status != 200 || body != "Hello, World!" || resp.Proto != "HTTP/3.0" {
					t.Errorf("%s %d %q", resp.Proto, status, body)
				}
				resp, err = c.Post(p.url+"/echo", "text/x-test", strings.NewReader("some body"))
				if status, body := answer(t, resp, err); status != 200 || body != "some body" {
					t.Errorf("/echo: %d %q", status, body)
				}
				if err := quic.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := p.interrupt(t, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSmallUDPBuffers: limits of the system are named if they are small and hold for the process.
func TestSmallUDPBuffers(t *testing.T) {
	for _, c := range []struct{ capabilities, read, write, want string }{
		{"0000000000000000", "212992\n", "212992\n", "net.core.rmem_max is 212992 and net.core.wmem_max is 212992"},
		{"0000000000000000", "2097152\n", "2097151\n", "net.core.wmem_max is 2097151"},
		{"0000000000000000", "7500000\n", "7500000\n", ""},
		{"0000000000001000", "212992\n", "212992\n", ""},
		{"00000000a80425fb", "212992\n", "7500000\n", "net.core.rmem_max is 212992"}, // root in a container
		{"odd", "none", "", ""},
	} {
		proc := fstest.MapFS{
			"self/status":           {Data: []byte("Name:\tx\nCapEff:\t" + c.capabilities + "\n")},
			"sys/net/core/rmem_max": {Data: []byte(c.read)},
			"sys/net/core/wmem_max": {Data: []byte(c.write)},
		}
		if got := smallUDPBuffers(proc); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := smallUDPBuffers(fstest.MapFS{}); got != "" {
		t.Errorf("without /proc: %q", got)
	}
}

// TestPortOfHTTP3: the system chooses another port if UDP cannot have the one that TCP has got, unless
// --addr has one.
func TestPortOfHTTP3(t *testing.T) {
	service, err := systemd.Take()
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]int{"127.0.0.1:0": 3, "127.0.0.1:18443": 1} {
		tries := 0
		r := &running{options: &serveOptions{http3: true}, systemd: service, listenUDP: func(tcp net.Addr) (net.PacketConn, error) {
			if tries++; tries < 3 {
				taken, err := listenUDP(tcp)
				if err != nil {
					t.Error(err)
				}
				defer taken.Close()
			}
			return listenUDP(tcp)
		}}
		ln, c, err := r.listenBoth(t.Context(), addr)
		if tries != want || (err == nil) != (want == 3) {
			t.Fatalf("%s: %d tries, %v", addr, tries, err)
		}
		if err != nil {
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Error(err)
			}
			continue
		}
		if ln.Addr().String() != c.LocalAddr().String() {
			t.Errorf("%v and %v", ln.Addr(), c.LocalAddr())
		}
		ln.Close()
		c.Close()
	}
}
