package http2_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestHTTP2HandOver moves a connection of HTTP/2 there and back: the tables of both sides
// move with it. With a request open, it stays.
func TestHTTP2HandOver(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			gate := make(chan struct{})
			waits := make(chan struct{})
			server := func(name string) *harness.Rig {
				return harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					if string(ctx.Path()) == "/wait" {
						close(waits)
						<-gate
					}
					ctx.Response.Header.Set("X-Server", "any")
					fmt.Fprintf(ctx, "%s-%d %d %s", name, ctx.ConnID(), ctx.ConnRequestNum(), ctx.Request.Header.Peek("X-Same"))
				}})
			}
			from, to := server("one"), server("two")
			f := from.Frames()
			stream := uint32(1)
			ask := func(path, want string) {
				t.Helper()
				f.Head(stream, "GET", path, true, "x-same", "same")
				stream += 2
				if want == "" {
					return
				}
				if got := f.Describe(); got != "200 "+want+" ." {
					t.Errorf("%s, want %s", got, want)
				}
			}
			for i := range 6 {
				ask("/", fmt.Sprintf("one-%d 1 same", i+1))
				ask("/", fmt.Sprintf("one-%d 2 same", i+1))
				harness.Eventually(t, "it is given away", func() bool { return from.Server.Control().HandOver(-1, harness.AdoptBy(t, to.Server)) == 1 })
				ask("/", fmt.Sprintf("two-%d 1 same", i+1))
				harness.Eventually(t, "it is given back", func() bool { return to.Server.Control().HandOver(-1, harness.AdoptSocketBy(t, from.Server)) == 1 })
			}
			ask("/wait", "")
			closed(t, "the handler runs", waits)
			if n := from.Server.Control().HandOver(-1, harness.AdoptBy(t, to.Server)); n != 0 {
				t.Error("it moved with a request")
			}
			close(gate)
			if got := f.Describe(); got != "200 one-7 1 same ." {
				t.Error(got)
			}
		})
	}
}

// TestHTTP2HandOverRefused: a server that has HTTP/2 off, or gets another state, closes
// the connection.
func TestHTTP2HandOverRefused(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			handler := func(*sluice.RequestCtx) {}
			from, off := harness.ServeHTTP2(t, n, &sluice.Server{Handler: handler}), harness.Serve(t, n, &sluice.Server{Handler: handler, HTTP2: sluice.HTTP2Config{Disable: true}})
			if from.Server.Control().StateKinds() == off.Server.Control().StateKinds() {
				t.Error("StateKinds")
			}
			for name, adopt := range map[string]func(c net.Conn, p sluice.Parcel) error{
				"off": off.Server.Control().AdoptConn,
				"damaged": func(c net.Conn, p sluice.Parcel) error {
					p.State[3]++
					return from.Server.Control().AdoptConn(c, p)
				},
			} {
				f := from.Frames()
				f.Head(1, "GET", "/", true)
				f.Describe()
				harness.Eventually(t, "it is given away", func() bool {
					return from.Server.Control().HandOver(-1, func(c net.Conn, p sluice.Parcel) {
						if err := adopt(c, p); err != nil {
							t.Error(err)
						}
					}) == 1
				})
				if got := f.Describe(); got != "end" {
					t.Errorf("%s: %s", name, got)
				}
			}
		})
	}
}
