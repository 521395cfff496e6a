package sluice

import "testing"

// TestPanicsOfHooksHTTP2: a hook that panics does not keep a place for a stream, and the
// connection goes on.
func TestPanicsOfHooksHTTP2(t *testing.T) {
	r := http2Servers[2].start(t, mirrorRequest)
	for name, trace := range map[string]*ClientTrace{
		"GotConn":      {GotConn: func(GotConnInfo) { panic("hook") }},
		"WroteRequest": {WroteRequest: func(error) { panic("hook") }},
		"FirstByte":    {FirstByte: func() { panic("hook") }},
	} {
		for _, streams := range []bool{false, true} {
			c := r.host(HTTP2Only)
			c.MaxHTTP2Conns = 1
			c.Trace = trace
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic is lost", name)
					}
				}()
				req, resp := newCall("GET", r.url("/"))
				resp.StreamBody = streams
				_ = c.Do(req, resp)
			}()
			eventually(t, name+": idle connections", func() bool { return c.IdleConnsCount() == 1 })
			c.Trace = nil
			if err := c.Do(newCall("GET", r.url("/"))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.CloseIdleConnections()
			checkPool(t, c, 0, 0)
		}
	}
}
