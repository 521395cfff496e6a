package fasthttpadaptor_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// 100 Continue is sent when the handler reads the body, and only then.
func TestContinueIsSentWhenTheBodyIsRead(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, string(body), err)
		}
	})
	onEachServer(t, h, func(t *testing.T, addr string) {
		for path, want := range map[string]string{"/read": "HTTP/1.1 100 Continue\r\n\r\n", "/": "HTTP/1.1 200 OK\r\n"} {
			c := dial(t, addr)
			_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v, want %q", path, got, err, want)
				continue
			}
			if path != "/read" {
				continue
			}
			_, _ = io.WriteString(c, "body")
			if rest, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(string(rest), "body<nil>") {
				t.Errorf("then %q, %v", rest, err)
			}
		}
	})
}

// A write deadline applies to its own request only: after one that has passed, the
// next response can still wait for the client.
func TestWriteDeadlineIsOver(t *testing.T) {
	const size = 32 << 20
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/deadline" {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)); err != nil {
				t.Error(err)
			}
			return
		}
		_, _ = io.Copy(w, io.LimitReader(endless{}, size))
	})
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) {
			addr := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e})
			c := dial(t, addr)
			_, _ = io.WriteString(c, "GET /deadline HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if n, err := io.Copy(io.Discard, c); err != nil || n < size {
				t.Errorf("got %d bytes, %v", n, err)
			}
		})
	}
}

// endless is a body of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
