package fasthttpadaptor_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// TestConvertedBodyIsReadTwice: a firewall converts a request, reads it, and forwards the
// one that it has received.
func TestConvertedBodyIsReadTwice(t *testing.T) {
	large := strings.Repeat("large", 10_000)
	for _, isStreamed := range []bool{false, true} {
		for _, forServer := range []bool{false, true} {
			addr := serve(t, &sluice.Server{StreamRequestBody: isStreamed, MaxRequestBodySize: 100_000, Handler: func(ctx *sluice.RequestCtx) {
				var r, again http.Request
				if err := fasthttpadaptor.ConvertRequest(ctx, &r, forServer); err != nil {
					again := fasthttpadaptor.ConvertRequest(ctx, &r, forServer)
					fmt.Fprint(ctx, err == sluice.ErrBodyTooLarge, again == err, r.Method == "")
					return
				}
				body, err := io.ReadAll(r.Body)
				err = errors.Join(err, fasthttpadaptor.ConvertRequest(ctx, &again, forServer))
				second, secondErr := io.ReadAll(again.Body)
				fmt.Fprintln(ctx, len(body), len(second), len(ctx.Request.Body()), r.ContentLength, r.TransferEncoding, r.Trailer, errors.Join(err, secondErr))
			}})
			for _, c := range []struct{ body, want string }{
				{"", "0 0 0 0 [] map[] <nil>\n"},
				{"small", "5 5 5 5 [] map[] <nil>\n"},
				{large, "50000 50000 50000 50000 [] map[] <nil>\n"},
				{"chunked" + large, "50007 50007 50007 -1 [chunked] map[X-Sum:[7]] <nil>\n"},
				{strings.Repeat("x", 100_001), "true true true"},
			} {
				if len(c.body) > 100_000 && !isStreamed {
					continue // refused before
				}
				if got := ask(t, addr, "POST", c.body).Body; got != c.want {
					t.Errorf("streamed %v, for server %v, %d bytes: got %q, want %q", isStreamed, forServer, len(c.body), got, c.want)
				}
			}
		}
	}
}

// TestConvertIncompleteBody: an incomplete body is an error.
func TestConvertIncompleteBody(t *testing.T) {
	failed := make(chan error, 1)
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		var r http.Request
		failed <- fasthttpadaptor.ConvertRequest(ctx, &r, false)
	}})
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
	_ = conn.Close()
	if err := <-failed; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
