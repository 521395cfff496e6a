package sluice

import (
	"errors"
	"io"
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
