package middleware

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
)

// A book keeps what is logged.
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) Printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *book) count(part string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		n += strings.Count(line, part)
	}
	return n
}

// A client never takes a response that a panic has cut for a whole one, and never gets another
// handler's connection.
func TestRecover(t *testing.T) {
	for name, c := range map[string]struct {
		handler sluice.RequestHandler
		want    string // the response begins with it, and ends the connection
		isWhole bool
		logged  int
	}{
		"panic":   {func(*sluice.RequestCtx) { panic("on purpose") }, "HTTP/1.1 500 ", true, 1},
		"no map":  {func(*sluice.RequestCtx) { panic(map[string]int{}) }, "HTTP/1.1 500 ", true, 1},
		"fields":  {func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set("X-Half", "1"); panic("on purpose") }, "HTTP/1.1 500 ", true, 1},
		"abort":   {func(*sluice.RequestCtx) { panic(sluice.ErrAbortHandler) }, "", false, 0},
		"flushed": {func(ctx *sluice.RequestCtx) { ctx.SetBodyString("half"); _ = ctx.Flush(); panic("on purpose") }, "HTTP/1.1 200 ", false, 1},
		"late":    {func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late"); panic("on purpose") }, "HTTP/1.1 500 ", false, 1},
		"hijack": {func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) { _, _ = c.Write([]byte("hijacked")) })
			panic("on purpose")
		}, "HTTP/1.1 500 ", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			log := &book{}
			answer := func(ctx *sluice.RequestCtx, _ any) { ctx.SetBodyString("own words") }
			addr := serve(t, &sluice.Server{Logger: log, Handler: Use(c.handler, RequestID, Recover(answer))})
			got := ask(t, addr, get)
			isWhole := strings.HasSuffix(got, "own words") && strings.Contains(got, HeaderRequestID) && strings.Contains(got, "\r\nServer: sluice\r\n")
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || isWhole != c.isWhole || strings.Contains(got, "X-Half") {
				t.Errorf("%q", got)
			}
			if strings.HasSuffix(got, "0\r\n\r\n") { // the end of a chunked body
				t.Errorf("%q is complete", got)
			}
			if n := log.count("panic in handler"); n != c.logged {
				t.Errorf("%d lines of the log: %q", n, log.lines)
			}
		})
	}
	ctx := request(t, "GET / HTTP/1.1")
	Recover(nil)(func(*sluice.RequestCtx) { panic("secret") })(ctx)
	if got := ctx.Response.String(); !strings.HasPrefix(got, "HTTP/1.1 500 ") || strings.Contains(got, "secret") {
		t.Errorf("%q", got)
	}
}
