package client_test

import (
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestPanicsOfHooksHTTP2: a hook that panics does not keep a place for a stream, and the
// connection goes on.
func TestPanicsOfHooksHTTP2(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, mirrorRequest)
	for name, trace := range map[string]*sluice.ClientTrace{
		"GotConn":      {GotConn: func(sluice.GotConnInfo) { panic("hook") }},
		"WroteRequest": {WroteRequest: func(error) { panic("hook") }},
		"FirstByte":    {FirstByte: func() { panic("hook") }},
	} {
		for _, streams := range []bool{false, true} {
			c := r.Host(sluice.HTTP2Only)
			c.MaxHTTP2Conns = 1
			c.Trace = trace
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic is lost", name)
					}
				}()
				req, resp := harness.NewCall("GET", r.URL("/"))
				resp.StreamBody = streams
				_ = c.Do(req, resp)
			}()
			eventually(t, name+": idle connections", func() bool { return c.IdleConnsCount() == 1 })
			c.Trace = nil
			if err := c.Do(harness.NewCall("GET", r.URL("/"))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.CloseIdleConnections()
			checkPool(t, c, 0, 0)
		}
	}
}
