package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// TestLargeExchangeIsNotKept: an exchange that has needed much memory for heads is not kept for long.
func TestLargeExchangeIsNotKept(t *testing.T) {
	needsEvents(t)
	const long = 200 << 10
	to := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Header().Set("X-Long", strings.Repeat("a", long))
		}
		io.WriteString(w, "ok")
	})
	p, held := newProxy(t, Options{To: []string{to}, MaxHead: 1 << 20}), make(chan int, 1)
	s := &sluice.Server{Engine: sluice.EngineEpoll, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		p.Handle(ctx)
		x, ok := (*upgrade.TakerOf(ctx).Kept()).(*exchange)
		if !ok {
			t.Error("no exchange is kept")
			return
		}
		held <- x.HeldBytes()
	}}
	conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
	r := bufio.NewReader(conn)
	ask := func(path string) int {
		send(t, conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		bodyOf(t, answerTo(t, r, 200))
		return wait(t, held, "no answer")
	}
	if n := ask("/long"); n < long {
		t.Errorf("%d bytes are held after %d", n, long)
	}
	n := 0
	for range 20 {
		n = ask("/")
	}
	if n > 64<<10 || n < int(unsafe.Sizeof(exchange{})) {
		t.Errorf("%d bytes are kept", n)
	}
}
