package sluice

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// TestAnswerIsNotLostToAReset: a connection whose client may still be sending lingers
// (RFC 9112 section 9.6).
func TestAnswerIsNotLostToAReset(t *testing.T) {
	for _, head := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		for name, c := range map[string]struct {
			handler RequestHandler
			body    string
			next    engine.Next // after the answer
		}{
			"time-out of the handler": {func(ctx *RequestCtx) { ctx.TimeoutError("late") }, "", engine.CloseLinger},
			"it had read":             {func(ctx *RequestCtx) { ctx.RequestBodyStream().Read(make([]byte, 1)); ctx.TimeoutError("late") }, "1\r\na\r\n", engine.CloseLinger},
			"time-out of the drain":   {func(*RequestCtx) {}, "", engine.Read},
		} {
			s := quietServer(c.handler)
			s.StreamRequestBody = true
			conn := &scriptedConn{}
			p := conn.open(s)
			next := conn.feed(t, p, []byte("POST / HTTP/1.1\r\nHost: h\r\n"+head+"\r\n\r\n"+c.body))
			if next != c.next || len(answeredCodes(string(conn.sent))) != 1 {
				t.Errorf("%s, %s: %v after %q", name, head, next, conn.sent)
			}
			if next == engine.Read {
				if out, next := p.TimedOut(nil); next != engine.CloseLinger || len(out) > 0 {
					t.Errorf("%s, %s: then %v, %q", name, head, next, out)
				}
			}
			p.Closed(nil)
		}
	}
}
