package fasthttpadaptor_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// TestHijackThatIsTimedOut: a connection that the hijack handler does not get, because another
// response is sent, is closed for its user.
func TestHijackThatIsTimedOut(t *testing.T) {
	for name, test := range map[string]struct {
		around func(h sluice.RequestHandler) sluice.RequestHandler
		stays  bool // until the connection ends
	}{
		"TimeoutError": {around: func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) { h(ctx); ctx.TimeoutError("late") }
		}},
		"TimeoutHandler": {around: func(h sluice.RequestHandler) sluice.RequestHandler {
			return sluice.TimeoutHandler(h, 20*time.Millisecond, "late")
		}, stays: true},
		"a panic": {around: func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) { h(ctx); panic(sluice.ErrAbortHandler) }
		}},
		"Hijack(nil)": {around: func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) { h(ctx); ctx.Hijack(nil); ctx.HijackSetNoResponse(false) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 10)
			h := test.around(fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					ended <- err
					return
				}
				read := func() {
					_, err := io.Copy(io.Discard, c)
					if err == nil {
						err = io.EOF
					}
					ended <- err
				}
				if test.stays {
					read()
					return
				}
				go read()
			})))
			for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
				ln, err := net.Listen("tcp4", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				s := &sluice.Server{Handler: h, Engine: engine}
				go func() { _ = s.Serve(ln) }()
				c := dial(t, ln.Addr().String())
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				select {
				case err := <-ended:
					t.Log(engine, err)
				case <-time.After(patience):
					t.Errorf("%v: the connection's Read waits", engine)
				}
				_ = c.Close()
				_ = s.Shutdown()
			}
		})
	}
}
