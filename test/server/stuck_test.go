package server_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestStuckClientIsReset: what a client did not take within WriteTimeout is not
// kept for it by the system. It reads what had arrived, or nothing of it, and
// then an error, never the end of a response that has none.
func TestStuckClientIsReset(t *testing.T) {
	body := make([]byte, 32<<20)
	dir := harness.MakeFiles(t, map[string]string{"huge.bin": string(body)})
	file := (&sluice.FS{Root: dir}).NewRequestHandler()
	for _, n := range harness.OverTCPByEach() {
		for name, handler := range map[string]sluice.RequestHandler{
			"memory": func(ctx *sluice.RequestCtx) { ctx.Response.SetBodyRaw(body) },
			"file":   func(ctx *sluice.RequestCtx) { file(ctx) },
		} {
			t.Run(n.Name+"/"+name, func(t *testing.T) {
				r := harness.Serve(t, n, &sluice.Server{Handler: handler, WriteTimeout: 50 * time.Millisecond})
				c, err := r.Connect()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(c, harness.Get("/huge.bin")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				harness.Eventually(t, "the server gives the client up", func() bool { return r.Server.GetOpenConnectionsCount() == 0 })
				n, err := io.Copy(io.Discard, c)
				if !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("after %d bytes: %v, want a reset", n, err)
				}
			})
		}
	}
}
