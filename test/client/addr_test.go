package client_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/test/harness"
)

// addrCases are values of Addr, and what a dialer of the user is given: what
// they mean is its own business.
var addrCases = []struct{ addr, dialed string }{
	{"", ""}, {"/run/app.sock", "/run/app.sock"}, {"name", "name"}, {"name:81", "name:81"},
	{"a name", "a name"}, {":80", ":80"}, {" one ,two:2", "one"},
}

func TestDialersGetAddrAsItIs(t *testing.T) {
	ln := fasthttputil.NewInmemoryListener()
	r := harness.Serve(t, harness.Network{Name: "listener", Listen: func(*testing.T) (net.Listener, func() (net.Conn, error)) { return ln, ln.Dial }},
		&sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.WriteString("ok") }})
	defer r.Stop()
	for _, test := range addrCases {
		dialed := make(chan string, 9)
		dial := func(addr string) (net.Conn, error) { dialed <- addr; return ln.Dial() }
		withTimeout := func(addr string, _ time.Duration) (net.Conn, error) { return dial(addr) }
		for name, client := range map[string]interface {
			DoTimeout(*sluice.Request, *sluice.Response, time.Duration) error
		}{
			"HostClient.Dial":        &sluice.HostClient{Addr: test.addr, Dial: dial},
			"HostClient.DialTimeout": &sluice.HostClient{Addr: test.addr, DialTimeout: withTimeout},
			"PipelineClient.Dial":    &sluice.PipelineClient{Addr: test.addr, Dial: dial},
		} {
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI("http://example.com/")
			req.SetConnectionClose()
			if err := client.DoTimeout(&req, &resp, harness.Patience); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%s, Addr %q: %v, %q", name, test.addr, err, resp.Body())
				continue
			}
			if got := harness.Receive(t, dialed); got != test.dialed {
				t.Errorf("%s, Addr %q: %q is dialed, want %q", name, test.addr, got, test.dialed)
			}
		}
	}
}

// TestNoAddr: without a dialer that knows, an address is needed.
func TestNoAddr(t *testing.T) {
	var req sluice.Request
	req.SetRequestURI("http://example.com/")
	if err := (&sluice.HostClient{}).Do(&req, nil); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("%v", err)
	}
	refused := errors.New("refused")
	c := &sluice.HostClient{Dial: func(string) (net.Conn, error) { return nil, refused }}
	if err := c.Do(&req, nil); !errors.Is(err, refused) {
		t.Errorf("%v, want the dialer's error", err)
	}
}

// TestMalformedAddrWithTLSIsNotDialed: where Addr is malformed, no host can be the name
// that the certificate must have.
func TestMalformedAddrWithTLSIsNotDialed(t *testing.T) {
	refused := errors.New("refused")
	for addr, isDialed := range map[string]bool{
		"::1": false, "[::1": false, "[::1]": false, "a:b:c": false, "a]:443": false, "[::1]x:443": false,
		"[::1]:443": true, "name": true, "name:443": true,
	} {
		for _, config := range []*tls.Config{nil, {}, {ServerName: "name"}} {
			dials := make(chan string, 9)
			dial := func(addr string) (net.Conn, error) { dials <- addr; return nil, refused }
			for name, client := range map[string]interface {
				DoTimeout(*sluice.Request, *sluice.Response, time.Duration) error
			}{
				"HostClient":     &sluice.HostClient{Addr: addr, IsTLS: true, TLSConfig: config, Dial: dial},
				"PipelineClient": &sluice.PipelineClient{Addr: addr, IsTLS: true, TLSConfig: config, Dial: dial},
			} {
				var req sluice.Request
				req.SetRequestURI("https://h/")
				err := client.DoTimeout(&req, nil, 10*time.Second)
				if isDialed || config != nil && config.ServerName != "" {
					if len(dials) == 0 || !errors.Is(err, refused) {
						t.Errorf("%s, %q: %d dials, %v", name, addr, len(dials), err)
					}
				} else if malformed := (*net.AddrError)(nil); len(dials) > 0 || !errors.As(err, &malformed) {
					t.Errorf("%s, %q: %d dials, %v", name, addr, len(dials), err)
				}
				for len(dials) > 0 {
					<-dials
				}
			}
		}
	}
}

// TestHostHasNoZone: the zone of an IPv6 address is a name of this machine (RFC 6874
// section 4): it leads to the server, which does not get it.
func TestHostHasNoZone(t *testing.T) {
	for url, want := range map[string]string{
		"http://[::1%25lo]/":            "[::1]",
		"http://[::1%25lo]:8080/":       "[::1]:8080",
		"http://[::1]:8080/":            "[::1]:8080",
		"http://user:pass@[::1%25a-b]/": "[::1]",
	} {
		host := make(chan string, 1)
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			if r := c.Request(); r != nil {
				host <- string(r.Header.Host())
				c.Send(harness.OKAnswer)
			} else {
				host <- "what no server takes"
			}
		})
		var dialed string
		c := &sluice.Client{MaxIdemponentCallAttempts: 1, Dial: func(addr string) (net.Conn, error) {
			dialed = addr
			return net.Dial("tcp", p.Addr())
		}}
		req, resp := harness.NewCall("GET", url)
		err := c.Do(req, resp)
		if got := <-host; err != nil || got != want {
			t.Errorf("%s: Host %q, dialed %q, %v", url, got, dialed, err)
		}
	}
}

// The certificate is for the address without the zone.
func TestCertificateHasNoZone(t *testing.T) {
	server, client := harness.TLSConfigs(t, "::1")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
	c := &sluice.Client{TLSConfig: client, Dial: func(string) (net.Conn, error) { return net.Dial("tcp", p.Addr()) }}
	defer c.CloseIdleConnections()
	if err := c.Do(harness.NewCall("GET", "https://[::1%25lo]/")); err != nil {
		t.Error(err)
	}
}
