package proxy

import (
	"bufio"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// TestCopiedContext: a RequestCtx that was copied by assignment has its own request forwarded, although
// the other one keeps an exchange.
func TestCopiedContext(t *testing.T) {
	p := newProxy(t, Options{To: []string{upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }))}})
	var ctx, other sluice.RequestCtx
	ctx.Init(new(sluice.Request), nil, nil)
	for _, c := range []*sluice.RequestCtx{&ctx, &other, &ctx} {
		if c == &other {
			reflect.ValueOf(c).Elem().Set(reflect.ValueOf(&ctx).Elem()) // go vet refuses an assignment
		}
		target := map[bool]string{true: "/other", false: "/first"}[c == &other]
		c.Request.SetRequestURI("http://b" + target)
		c.Response.Reset()
		p.Handle(c)
		if got := string(c.Response.Body()); got != target {
			t.Errorf("%d, %q, want %q", c.Response.StatusCode(), got, target)
		}
	}
}

// TestLargeHeadsAreNotKept: the memory of a large head does not stay with a RequestCtx whose other
// requests and responses are small.
func TestLargeHeadsAreNotKept(t *testing.T) {
	to := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Header().Set("X-Long", strings.Repeat("x", 60_000))
		}
	})
	for _, engine := range engines {
		for name, large := range map[string]string{
			"request":  get(strings.Repeat("X-Long: "+strings.Repeat("x", 5000)+"\r\n", 12)),
			"response": strings.Replace(get(""), " / ", " /long ", 1),
		} {
			t.Run(engine.String()+"/"+name, func(t *testing.T) {
				p := newProxy(t, Options{To: []string{to}, MaxHead: 128 << 10})
				var kept, most atomic.Int64
				s := &sluice.Server{Engine: engine, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
					if x, ok := (*upgrade.TakerOf(ctx).Kept()).(*exchange); ok {
						kept.Add(1)
						most.Store(max(most.Load(), int64(x.HeldBytes())))
					}
					p.Handle(ctx)
				}}
				conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
				r := bufio.NewReader(conn)
				send(t, conn, large)
				for range 20 { // one of them has the RequestCtx shrink
					_ = bodyOf(t, answerTo(t, r, 200))
					send(t, conn, get(""))
				}
				_ = bodyOf(t, answerTo(t, r, 200))
				kept.Store(0)
				most.Store(0)
				for range 20 {
					send(t, conn, get(""))
					_ = bodyOf(t, answerTo(t, r, 200))
				}
				if kept.Load() == 0 || most.Load() > 64<<10 {
					t.Errorf("an exchange with %d bytes was kept, %d times", most.Load(), kept.Load())
				}
			})
		}
	}
}
