package server_test

import (
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestHandlerClosesConn: a handler that closes the connection wants no answer to
// be sent. What was sent before arrives: answers to earlier requests, what was
// flushed, and what the handler has written itself.
func TestHandlerClosesConn(t *testing.T) {
	handler := func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/drop":
			ctx.SetBodyString("never")
			_ = ctx.Conn().Close()
		case "/write":
			conn := ctx.Conn()
			_, _ = conn.Write([]byte("raw"))
			_ = conn.Close()
		case "/flush":
			ctx.WriteString("part")
			_ = ctx.Flush()
			ctx.WriteString("never")
			_ = ctx.Conn().Close()
		case "/look":
			_ = ctx.Conn().RemoteAddr()
			ctx.SetBodyString("looked")
		}
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" }
	for _, n := range append(append(harness.OverTCPByEach(), harness.InMemory()), harness.OverTLSEach(t, append(harness.WithCompactTLS(), harness.OverTCP()))...) {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{Handler: handler, NoDefaultDate: true, NoDefaultServerHeader: true})
			looked := "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n\r\nlooked"
			part := "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"
			for script, want := range map[string]string{
				get("/drop"): "",
				get("/look") + get("/drop") + get("/look"): looked,
				get("/write"): "raw",
				get("/flush"): part,
			} {
				if got := r.Exchange(script); got != want {
					t.Errorf("%q: %q, want %q", script, got, want)
				}
			}
		})
	}
}
