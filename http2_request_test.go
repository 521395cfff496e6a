package sluice_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestHTTP2Request: what a handler sees of a request.
func TestHTTP2Request(t *testing.T) {
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		r := serveHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			h := &ctx.Request.Header
			fmt.Fprintf(ctx, "%s %s %s %v %s %d %d %v %v %q %d", h.Method(), ctx.URI().FullURI(), h.Protocol(), h.IsHTTP11(),
				ctx.PostBody(), ctx.StreamID(), ctx.ConnRequestNum(), ctx.IsTLS(), ctx.TLSConnectionState() != nil,
				h.Peek("X-A"), h.ContentLength())
			if ctx.ConnID() == 0 || ctx.ID() != ctx.ConnID()<<32|ctx.ConnRequestNum() || ctx.ConnTime().IsZero() || ctx.Time().IsZero() || ctx.RemoteAddr() == nil || ctx.LocalAddr() == nil {
				t.Error("facts of the connection are missing")
			}
		}})
		client := r.http2Client()
		isTLS := n.scheme() == "https"
		for i, want := range []string{
			fmt.Sprintf(`POST %s://example.com/a?b=c HTTP/2.0 true body 1 1 %v %v "1" 4`, n.scheme(), isTLS, isTLS),
			fmt.Sprintf(`POST %s://example.com/a?b=c HTTP/2.0 true body 3 2 %v %v "1" 4`, n.scheme(), isTLS, isTLS),
		} {
			req, _ := http.NewRequest("POST", n.scheme()+"://example.com/a?b=c", strings.NewReader("body"))
			req.Header.Set("X-A", "1")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, resp); got != want || resp.ProtoMajor != 2 {
				t.Errorf("request %d: %s\nwant %s", i, got, want)
			}
		}
	})
}

// TestHTTP1WithHTTP2: the same port still serves HTTP/1.1.
func TestHTTP1WithHTTP2(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		r := serveHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			fmt.Fprintf(ctx, "%s %d", ctx.Request.Header.Protocol(), ctx.StreamID())
		}})
		if got := r.dial().get("/"); got.body != "HTTP/1.1 0" {
			t.Errorf("%q", got.body)
		}
	})
}
