package server_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestLimitBody: what a handler learns of a body that is larger than it allows, and what it
// gets of a stream.
func TestLimitBody(t *testing.T) {
	for _, isStreamed := range []bool{false, true} {
		harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: isStreamed, Handler: func(ctx *sluice.RequestCtx) {
				if ctx.LimitBody(0) != nil || ctx.LimitBody(20) != nil && ctx.Request.Header.ContentLength() <= 20 {
					t.Error("an earlier limit")
				}
				before := ctx.LimitBody(10)
				_ = ctx.LimitBody(1000) // a limit is not raised
				var read error
				got := ""
				if stream := ctx.RequestBodyStream(); stream != nil && before == nil {
					var all []byte
					all, read = io.ReadAll(struct{ io.Reader }{stream})
					got = string(all)
				}
				fmt.Fprintf(ctx, "%v, %q %v, %v", errors.Is(before, sluice.ErrBodyTooLarge), got, errors.Is(read, sluice.ErrBodyTooLarge), errors.Is(ctx.LimitBody(10), sluice.ErrBodyTooLarge))
			}})
			for _, c := range []struct{ name, fields, body, buffered, streamed string }{
				{"none", "Content-Length: 0", "", `false, "" false, false`, `false, "" false, false`},
				{"full", "Content-Length: 10", "0123456789", `false, "" false, false`, `false, "0123456789" false, false`},
				{"over", "Content-Length: 11", "0123456789x", `true, "" false, true`, `true, "" false, true`},
				{"chunked, full", "Transfer-Encoding: chunked", "4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n", `false, "" false, false`, `false, "0123456789" false, false`},
				{"chunked, over", "Transfer-Encoding: chunked", "4\r\n0123\r\n7\r\n456789x\r\n0\r\n\r\n", `true, "" false, true`, `false, "0123456789" true, true`},
				{"chunked, more", "Transfer-Encoding: chunked", "a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", `true, "" false, true`, `false, "0123456789" true, true`},
			} {
				p := r.Dial()
				p.Send(harness.Request("POST / HTTP/1.1", c.fields) + c.body)
				want := c.buffered
				if isStreamed {
					want = c.streamed
				}
				if a := p.Answer("POST"); a.StatusCode != 200 || a.Body != want {
					t.Errorf("%s, streamed %v: %d %s, want %s", c.name, isStreamed, a.StatusCode, a.Body, want)
				}
			}
		})
	}
}

// TestLimitBodyDecodes: the limit holds for what a body decodes to.
func TestLimitBodyDecodes(t *testing.T) {
	for _, isStreamed := range []bool{false, true} {
		harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: isStreamed, Handler: func(ctx *sluice.RequestCtx) {
				if err := ctx.LimitBody(1000); err != nil {
					t.Error(err)
				}
				plain, err := ctx.Request.BodyUncompressed()
				fmt.Fprint(ctx, len(plain), " ", errors.Is(err, sluice.ErrBodyTooLarge))
			}})
			for size, want := range map[int]string{1000: "1000 false", 1001: "0 true", 100_000: "0 true"} {
				small := sluice.AppendGzipBytes(nil, []byte(strings.Repeat("x", size)))
				p := r.Dial()
				p.Send(harness.Request("POST / HTTP/1.1", "Content-Encoding: gzip", fmt.Sprint("Content-Length: ", len(small))) + string(small))
				if a := p.Answer("POST"); a.Body != want {
					t.Errorf("%d bytes: %s", size, a.Body)
				}
			}
		})
	}
}

// TestHeadSent: a handler knows whether it can change the head.
func TestHeadSent(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			before := ctx.HeadSent()
			if err := ctx.Flush(); err != nil {
				t.Error(err)
			}
			fmt.Fprint(ctx, before, " ", ctx.HeadSent())
		}})
		p := r.Dial()
		for range 2 {
			p.Send(harness.Get("/"))
			if a := p.Answer("GET"); a.Body != "false true" {
				t.Error(a.Body)
			}
		}
	})
}

// TestLimitBodyEnds: the limit of a request is not that of the next one.
func TestLimitBodyEnds(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			limit := 2
			if ctx.IsPut() {
				limit = 10
			}
			_ = ctx.LimitBody(limit)
			ctx.SetBody(ctx.PostBody())
		}})
		p := r.Dial()
		for range 2 {
			for _, method := range []string{"GET", "POST", "PUT"} {
				body := map[string]string{"POST": "12", "PUT": "0123456789"}[method]
				p.Send(harness.Request(method+" / HTTP/1.1", fmt.Sprint("Content-Length: ", len(body))) + body)
				if a := p.Answer(method); a.Body != body {
					t.Errorf("%s: %q", method, a.Body)
				}
			}
		}
	})
}
