package client_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestPanicsOfHooks: a hook that panics does not keep the connection's place in the pool.
func TestPanicsOfHooks(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	for name, trace := range map[string]*sluice.ClientTrace{
		"GotConn":      {GotConn: func(sluice.GotConnInfo) { panic("hook") }},
		"WroteRequest": {WroteRequest: func(error) { panic("hook") }},
		"FirstByte":    {FirstByte: func() { panic("hook") }},
	} {
		c := p.Host()
		c.Trace = trace
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic is lost", name)
				}
			}()
			_ = c.Do(harness.NewCall("GET", p.URL("/")))
		}()
		checkPool(t, c, 0, 0)
	}
}

// A closingConn tells that it is closed.
type closingConn struct {
	net.Conn
	isClosed *bool
}

func (c closingConn) Close() error {
	*c.isClosed = true
	return c.Conn.Close()
}

// TestPanicsDuringHandshakes: a panic of a hook, or of a callback of TLSConfig, does not
// leave the socket open.
func TestPanicsDuringHandshakes(t *testing.T) {
	server, trusting := harness.TLSConfigs(t, "127.0.0.1")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
	for name, change := range map[string]func(c *sluice.HostClient){
		"TLSStart": func(c *sluice.HostClient) { c.Trace = &sluice.ClientTrace{TLSStart: func() { panic("hook") }} },
		"TLSDone": func(c *sluice.HostClient) {
			c.Trace = &sluice.ClientTrace{TLSDone: func(tls.ConnectionState, error) { panic("hook") }}
		},
		"VerifyConnection": func(c *sluice.HostClient) {
			c.TLSConfig.VerifyConnection = func(tls.ConnectionState) error { panic("hook") }
		},
		"VerifyConnection, TLSDone": func(c *sluice.HostClient) {
			c.TLSConfig.VerifyConnection = func(tls.ConnectionState) error { panic("hook") }
			c.Trace = &sluice.ClientTrace{TLSDone: func(tls.ConnectionState, error) {}}
		},
	} {
		isClosed := false
		c := p.Host()
		c.IsTLS, c.TLSConfig = true, trusting.Clone()
		c.Dial = func(addr string) (net.Conn, error) {
			nc, err := net.Dial("tcp", addr)
			return closingConn{nc, &isClosed}, err
		}
		change(c)
		func() {
			defer func() {
				if v := recover(); v != "hook" {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			_ = c.Do(harness.NewCall("GET", "https://"+p.Addr()+"/"))
		}()
		if !isClosed {
			t.Errorf("%s: the socket stays open", name)
		}
		checkPool(t, c, 0, 0)
	}
}

// panickingReader is a body stream.
type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("body") }

// TestPanicOfOldBody: HTTP/1.0 needs the length of a body, so the stream is read before.
func TestPanicOfOldBody(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.MaxIdemponentCallAttempts = 1
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.Header.SetProtocol("HTTP/1.0")
	req.SetBodyStream(io.MultiReader(panickingReader{}), -1)
	var panicked *sluice.ErrBodyStreamWritePanic
	if err := c.Do(req, resp); !errors.As(err, &panicked) {
		t.Error(err)
	}
	checkPool(t, c, 0, 0)
}
