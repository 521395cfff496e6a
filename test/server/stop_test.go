package server_test

import (
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestStopAccepting: connections go on, and a socket that somebody else has too
// takes no more of ours.
func TestStopAccepting(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			other, err := ln.(*net.TCPListener).File() // as a sibling process would have it
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.WriteString("ok") }, Engine: n.Engine}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			defer s.Shutdown()
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			p := harness.NewPeer(t, c)
			if got := p.Get("/"); got.Body != "ok" {
				t.Fatalf("%q", got.Body)
			}
			addr := ln.Addr().String()
			if err := s.Control().StopAccepting(ln); err != nil {
				t.Fatal(err)
			}
			if err := harness.Receive(t, served); err != nil {
				t.Errorf("Serve returned %v", err)
			}
			late, err := net.Dial("tcp", addr) // into the queue of the other's
			if err != nil {
				t.Fatal(err)
			}
			defer late.Close()
			if got := p.Get("/"); got.Body != "ok" {
				t.Errorf("the connection from before: %q", got.Body)
			}
			if open := s.GetOpenConnectionsCount(); open != 1 {
				t.Errorf("%d connections", open)
			}
		})
	}
}
