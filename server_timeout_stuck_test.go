package sluice_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
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
				sluice.TimeoutHandler(h, briefly<<(tries.Add(1)-1), "slow")(ctx)
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
	for i, n := range append(overTCPByEach(), overTLS(t, overTCP()), overTLS(t, overTCP().by(sluice.EnginePerConn))) {
		for how, write := range writers {
			if how == "EarlyHints" && i > 0 && testing.Short() {
				continue // such a long field takes seconds
			}
			for end, within := range timeouts {
				t.Run(n.name+"/"+how+"/"+end, func(t *testing.T) {
					ended, began := make(chan error, 100), make(chan bool, 100)
					r := serve(t, n, &sluice.Server{Handler: within(func(ctx *sluice.RequestCtx) { ended <- write(ctx) }, began)})
					p := r.dial()
					p.send(get("/"))
					for p.expectAny() == "HTTP/1.1 408 " {
						receive(t, ended)
						p.Close()
						p = r.dial()
						p.send(get("/"))
					}
					began <- true
					if err := receive(t, ended); err == nil {
						t.Error("the handler has written everything")
					}
					eventually(t, "the connection ends", func() bool { return r.server.GetOpenConnectionsCount() == 0 })
					if got := p.rest(); strings.Contains(got, "408") || strings.Contains(got, "slow") {
						t.Error("there is an answer behind a part of another one")
					}
				})
			}
		}
	}
}

// expectAny returns the first bytes that come, if any.
func (p *peer) expectAny() string {
	p.t.Helper()
	b := make([]byte, len("HTTP/1.1 408 "))
	n, _ := io.ReadFull(p.r, b) // or it was broken off before the first byte
	return string(b[:n])
}

// TestTimeoutAfterConn: a handler that timed out may have read from the
// connection, and may do so still. It is used for nothing but the answer.
func TestTimeoutAfterConn(t *testing.T) {
	msg := strings.Repeat("slow ", 2<<20) // more than sockets hold: the answer is still going out
	onEachNetwork(t, func(t *testing.T, n network) {
		leave, found := make(chan struct{}), make(chan error, 1)
		r := serve(t, n, &sluice.Server{NoDefaultDate: true, Handler: sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) {
			conn := ctx.Conn()
			<-leave
			_, err := io.WriteString(conn, "late")
			found <- err
		}, briefly, msg)})
		p := r.dial()
		p.send(get("/") + get("/"))
		got := p.expectAny()
		close(leave)
		if err := receive(t, found); err == nil {
			t.Error("the handler has written into the answer")
		}
		if got += p.rest(); got != textAnswer(408, msg, "Connection: close") {
			t.Errorf("the answer has %d bytes", len(got))
		}
	})
}
