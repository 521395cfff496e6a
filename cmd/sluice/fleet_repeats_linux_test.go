package main

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestFleetRepeats: what a machine may have begun is sent to another one only if its method is
// idempotent. The machines close their connections without an answer.
func TestFleetRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("starts machines")
	}
	t.Parallel()
	for name, times := range map[string]int64{"HAProxy": 3, "nginx": 2} { // that a request is sent, if it may be
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n *network
			if name == "nginx" {
				n = newNginx(t, "max_fails=2", "max_fails=0") // or it would soon send nothing
			} else {
				n = newHAProxy(t)
			}
			var requests atomic.Int64
			for _, m := range n.machines {
				n.kill(m)
				n.serve(m, ":9090", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("ok") }) // it is healthy
				n.serve(m, ":8080", func(ctx *sluice.RequestCtx) {
					requests.Add(1)
					panic(sluice.ErrAbortHandler)
				})
			}
			if name == "HAProxy" {
				for _, m := range n.machines { // a check may have failed
					n.awaitHealth(m, "UP")
				}
			}
			for method, want := range map[string]int64{"GET": times, "HEAD": times, "PUT": times, "DELETE": times, "POST": 1, "PATCH": 1} {
				client := &sluice.Client{DialContext: n.clients.dial, MaxIdemponentCallAttempts: 1}
				req, resp := &sluice.Request{}, &sluice.Response{}
				req.SetRequestURI("http://10.41.0.10/")
				req.Header.SetMethod(method)
				if method == "POST" || method == "PUT" || method == "PATCH" {
					req.SetBodyString("once")
				}
				before := requests.Load()
				if err := client.Do(req, resp); err == nil && resp.StatusCode() != sluice.StatusBadGateway {
					t.Errorf("%s: status %d", method, resp.StatusCode())
				}
				client.CloseIdleConnections()
				if got := requests.Load() - before; got != want {
					t.Errorf("%s: machines got it %d times, want %d", method, got, want)
				}
			}
		})
	}
}

// serve serves on m in place of "sluice serve".
func (n *network) serve(m *machine, addr string, handler sluice.RequestHandler) {
	n.t.Helper()
	var ln net.Listener
	eventually(n.t, "free port", func() bool { // sockets of a process close when it has died
		var err error
		return m.within(func() { ln, err = net.Listen("tcp", addr) }) == nil && err == nil
	})
	s := &sluice.Server{Handler: handler, ProxyProtocol: sluice.ProxyProtocolAccept, ProxyTrusted: []netip.Prefix{netip.MustParsePrefix("10.41.0.0/24")}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	n.t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			n.t.Error(err)
		}
		if err := <-served; err != nil {
			n.t.Error(err)
		}
	})
}
