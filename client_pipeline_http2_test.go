package sluice

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// The connection to a server that has chosen HTTP/1.1 is there before others learn of the
// choice, or they would open another one.
func TestHTTP2FallsBackOnce(t *testing.T) {
	r := http2Servers[1].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, IsTLS: true, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Auto}
	c.once.Do(c.prepare)
	pass := c.host.http2.passHTTP1
	c.host.http2.passHTTP1 = func(cc *clientConn) {
		if c.host.http2.isHTTP1.Load() {
			t.Error("others have learned of it")
		}
		pass(cc)
	}
	hc := r.host(HTTP2Auto)
	hc.MaxConns, hc.MaxConnWaitTimeout = 1, clientPatience
	for name, do := range map[string]func(req *Request, resp *Response) error{"PipelineClient": c.Do, "HostClient": hc.Do} {
		r.dials.Store(0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := do(newCall("GET", r.url("/"))); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%s: %d dials, want 1", name, n)
		}
	}
	c.CloseIdleConnections()
	hc.CloseIdleConnections()
}

// A connection whose server has chosen HTTP/1.1 is not used if it has ended meanwhile, and
// closed if nobody uses it.
func TestPipelineHTTP2Spare(t *testing.T) {
	r := http2Servers[1].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, IsTLS: true, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Auto}
	c.once.Do(c.prepare)
	c.host.http2.isHTTP1.Store(true)
	ended := newClientPeer(t, func(*peerConn) {})
	for range 2 {
		nc, err := net.Dial("tcp", ended.host().Addr)
		if err != nil {
			t.Fatal(err)
		}
		cc := newClientConn(nc, r.addr)
		eventually(t, "the connection ends", func() bool { return !cc.wire.IsQuiet() })
		c.host.http2.passHTTP1(cc)
		if r.dials.Load() == 0 {
			if err := c.Do(newCall("POST", r.url("/"))); err != nil || r.dials.Load() != 1 {
				t.Errorf("%v, %d dials, want 1", err, r.dials.Load())
			}
		}
		c.CloseIdleConnections()
		if _, err := nc.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the connection was not closed: %v", err)
		}
	}
}
