package server_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestTimeoutEndsStuckWrites: a handler that writes to a client which does not
// read ends with its time-out, and its connection with it, without any
// WriteTimeout. If nothing was written in time, which is likely on a slow machine, it has
// twice the time.
func TestTimeoutEndsStuckWrites(t *testing.T) {
	chunk := strings.Repeat("x", 8<<20) // more than sockets hold
	writers := map[string]func(ctx *sluice.RequestCtx) error{
		"Flush": func(ctx *sluice.RequestCtx) error {
			ctx.WriteString(chunk)
			return ctx.Flush()
		},
		"EarlyHints": func(ctx *sluice.RequestCtx) error {
			ctx.Response.Header.Set("Link", "</"+chunk+">; rel=preload")
			return ctx.EarlyHints()
		},
		"Conn": func(ctx *sluice.RequestCtx) error {
			_, err := io.WriteString(ctx.Conn(), chunk)
			return err
		},
	}
	timeouts := map[string]func(h sluice.RequestHandler, began <-chan bool) sluice.RequestHandler{
		"TimeoutHandler": func(h sluice.RequestHandler, _ <-chan bool) sluice.RequestHandler {
			var tries atomic.Int64
			return func(ctx *sluice.RequestCtx) {
				sluice.TimeoutHandler(h, harness.Briefly<<(tries.Add(1)-1), "slow")(ctx)
			}
		},
		"TimeoutError": func(h sluice.RequestHandler, began <-chan bool) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) {
				go h(ctx)
				<-began
				ctx.TimeoutError("slow")
			}
		},
	}
	// In memory, the first Writes never get stuck.
	for i, n := range append(harness.OverTCPByEach(), harness.OverTLSEach(t, append(harness.WithCompactTLS(), harness.OverTCP(), harness.OverTCP().By(sluice.EnginePerConn)))...) {
		for how, write := range writers {
			if how == "EarlyHints" && i > 0 && testing.Short() {
				continue // such a long field takes seconds
			}
			for end, within := range timeouts {
				t.Run(n.Name+"/"+how+"/"+end, func(t *testing.T) {
					ended, began := make(chan error, 100), make(chan bool, 100)
					r := harness.Serve(t, n, &sluice.Server{Handler: within(func(ctx *sluice.RequestCtx) { ended <- write(ctx) }, began)})
					p := r.Dial()
					p.Send(harness.Get("/"))
					for p.ExpectAny() == "HTTP/1.1 408 " {
						harness.Receive(t, ended)
						p.Close()
						p = r.Dial()
						p.Send(harness.Get("/"))
					}
					began <- true
					if err := harness.Receive(t, ended); err == nil {
						t.Error("the handler has written everything")
					}
					harness.Eventually(t, "the connection ends", func() bool { return r.Server.GetOpenConnectionsCount() == 0 })
					if got := p.Rest(); strings.Contains(got, "408") || strings.Contains(got, "slow") {
						t.Error("there is an answer behind a part of another one")
					}
				})
			}
		}
	}
}

// TestTimeoutAfterConn: a handler that timed out may have read from the
// connection, and may do so still. It is used for nothing but the answer.
func TestTimeoutAfterConn(t *testing.T) {
	msg := strings.Repeat("slow ", 2<<20) // more than sockets hold: the answer is still going out
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		leave, found := make(chan struct{}), make(chan error, 1)
		r := harness.Serve(t, n, &sluice.Server{NoDefaultDate: true, Handler: sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) {
			conn := ctx.Conn()
			<-leave
			_, err := io.WriteString(conn, "late")
			found <- err
		}, harness.Briefly, msg)})
		p := r.Dial()
		p.Send(harness.Get("/") + harness.Get("/"))
		got := p.ExpectAny()
		close(leave)
		if err := harness.Receive(t, found); err == nil {
			t.Error("the handler has written into the answer")
		}
		if got += p.Rest(); got != harness.TextAnswer(408, msg, "Connection: close") {
			t.Errorf("the answer has %d bytes", len(got))
		}
	})
}
