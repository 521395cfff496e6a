package fasthttpadaptor_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// After a Hijack that failed because of a long body, a second one does not begin in
// the middle of the body.
func TestHijackIsTriedAgain(t *testing.T) {
	const size = 300 << 10 // more than is discarded at a time
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hijack := w.(http.Hijacker).Hijack
		c, rw, err := hijack()
		if err == nil {
			t.Error("all of the body was discarded")
		} else if c, rw, err = hijack(); err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(c, line)
	})
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) {
			addr := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e, StreamRequestBody: true})
			got := exchange(t, addr, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s\nline\n", size, strings.Repeat("x", size-1)))
			if got != "line\n" {
				t.Errorf("the connection begins with %.20q", got)
			}
		})
	}
}
