package fasthttpadaptor_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// TestLargeUploads: without StreamRequestBody, the server's limit holds for handlers of
// net/http, and the answer names it. With it, there is no limit but the handler's.
func TestLargeUploads(t *testing.T) {
	h := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n != 5<<20 || err != nil {
			t.Error(n, err)
		}
		_, _ = io.WriteString(w, "stored")
	})
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, isStreamed := range []bool{false, true} {
			addr := serve(t, &sluice.Server{Engine: e, StreamRequestBody: isStreamed, Handler: h})
			for _, body := range []string{strings.Repeat("x", 5<<20), "chunked" + strings.Repeat("x", 5<<20-len("chunked"))} {
				for _, isHTTP2 := range []bool{false, true} {
					got := askIn(t, isHTTP2, addr, "PUT", body)
					want := `200`
					text := `"stored"`
					if !isStreamed {
						want, text = `413`, `"the body is larger than the limit of 4194304 bytes"`
					}
					if !strings.HasPrefix(got, want) || !strings.Contains(got, text) {
						t.Errorf("%v, streamed %v, HTTP/2 %v: got %.300s", e, isStreamed, isHTTP2, got)
					}
				}
			}
		}
	}
}
