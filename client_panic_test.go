package sluice

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
)

// TestPanicsOfHooks: a hook that panics does not keep the connection's place in the pool.
func TestPanicsOfHooks(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	for name, trace := range map[string]*ClientTrace{
		"GotConn":      {GotConn: func(GotConnInfo) { panic("hook") }},
		"WroteRequest": {WroteRequest: func(error) { panic("hook") }},
		"FirstByte":    {FirstByte: func() { panic("hook") }},
	} {
		c := p.host()
		c.Trace = trace
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic is lost", name)
				}
			}()
			_ = c.Do(newCall("GET", p.url("/")))
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
	server, trusting := testTLS(t, "127.0.0.1")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeerOn(t, ln, answering(okAnswer))
	for name, change := range map[string]func(c *HostClient){
		"TLSStart": func(c *HostClient) { c.Trace = &ClientTrace{TLSStart: func() { panic("hook") }} },
		"TLSDone": func(c *HostClient) {
			c.Trace = &ClientTrace{TLSDone: func(tls.ConnectionState, error) { panic("hook") }}
		},
		"VerifyConnection": func(c *HostClient) { c.TLSConfig.VerifyConnection = func(tls.ConnectionState) error { panic("hook") } },
		"VerifyConnection, TLSDone": func(c *HostClient) {
			c.TLSConfig.VerifyConnection = func(tls.ConnectionState) error { panic("hook") }
			c.Trace = &ClientTrace{TLSDone: func(tls.ConnectionState, error) {}}
		},
	} {
		isClosed := false
		c := p.host()
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
			_ = c.Do(newCall("GET", "https://"+p.addr()+"/"))
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
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	c.MaxIdemponentCallAttempts = 1
	req, resp := newCall("POST", p.url("/"))
	req.Header.SetProtocol("HTTP/1.0")
	req.SetBodyStream(io.MultiReader(panickingReader{}), -1)
	var panicked *ErrBodyStreamWritePanic
	if err := c.Do(req, resp); !errors.As(err, &panicked) {
		t.Error(err)
	}
	checkPool(t, c, 0, 0)
}
