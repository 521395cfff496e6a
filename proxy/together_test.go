package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine/uring"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// TestSentTogether: requests of many connections, which the engine sends together, get their own
// answers, while upstreams close connections and send bytes that were not requested.
func TestSentTogether(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		switch {
		case strings.HasSuffix(name, "7"):
			conn, rw, _ := w.(http.Hijacker).Hijack()
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(name), name)
			if strings.HasSuffix(name, "77") { // at once: after the next request, it would be the answer
				io.WriteString(rw, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			}
			rw.Flush()
			conn.Close()
		default:
			io.WriteString(w, name)
		}
	})
	p := newProxy(t, Options{To: []string{up}})
	var isHeld atomic.Bool
	s := &sluice.Server{Engine: sluice.EngineEpoll, IOUring: sluice.IOUringOn, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		holder, _ := upgrade.TakerOf(ctx).Watch(nil)
		isHeld.Store(holder != nil)
		p.Handle(ctx)
	}}
	addr := serveUntilEnd(t, s.Serve, s.Shutdown)
	for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
		client := &sluice.HostClient{Addr: addr, HTTP2: mode, MaxIdemponentCallAttempts: 1}
		var clients sync.WaitGroup
		for c := range 32 {
			clients.Go(func() {
				for i := range 100 {
					name := fmt.Sprintf("/%d/%d", c, i)
					status, body, err := client.Get(nil, "http://"+addr+name)
					if string(body) != name || err != nil || status != http.StatusOK {
						t.Errorf("%v: %s: %d, %q, %v", mode, name, status, body, err)
						return
					}
				}
			})
		}
		clients.Wait()
		client.CloseIdleConnections()
		if uring.Obstacle() == nil && !isHeld.Load() {
			t.Errorf("%v: nothing may send for the handlers", mode)
		}
	}
}
