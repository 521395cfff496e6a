package prefork

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// withEvents adds /events, a response that ends only with the worker.
func withEvents(ending <-chan struct{}, h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) != "/events" {
			h(ctx)
			return
		}
		ctx.SetContentType("text/event-stream")
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for {
				fmt.Fprint(w, "data: x\n\n")
				if w.Flush() != nil {
					return
				}
				select {
				case <-ending:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
}

// The old worker completes a request whose body is still arriving, and a response
// that OnDrain ends. Then it hands their connections over to the successor.
func TestLongRequestsAreHandedOver(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			f := start(t, setup{Workers: 1, Engine: engine, Linger: patience, Drain: patience, BootGate: gate}, true)
			upload, events := f.dial(), f.dial()
			upload.send("POST /echo?n=7 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nfirst")
			events.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, err := events.r.Peek(1); err != nil {
				t.Fatal(err)
			}
			until(t, "both are accepted", func() bool { return connections(t, f.pids()) == 2 })
			f.signal(syscall.SIGHUP)
			open(t, gate)
			until(t, "the successor is ready", func() bool { return f.count("ready after") == 2 })
			if body := events.answer(); strings.Trim(body, "dat: x\n") != "" {
				t.Errorf("%q", body)
			}
			upload.send("-last")
			if body := upload.answer(); body != "7:first-last" {
				t.Errorf("%q", body)
			}
			until(t, "the old worker ends", func() bool { return !isAlive(f.pids()[0]) })
			for _, c := range []*client{upload, events} {
				if got := c.get("/"); !strings.HasSuffix(got, " 0 2 true") {
					t.Errorf("%q is not of the successor", got)
				}
			}
		})
	}
}
