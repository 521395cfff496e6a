package sluice

import (
	"strings"
	"testing"
)

// TestTrailerNamesAreKept: a server that keeps names keeps those of trailer fields, too.
func TestTrailerNamesAreKept(t *testing.T) {
	for _, isStreaming := range []bool{false, true} {
		for _, keeps := range []bool{false, true} {
			s := quietServer(func(ctx *RequestCtx) {
				ctx.PostBody()
				for name := range ctx.Request.Header.Trailers() {
					ctx.WriteString(string(name) + "=" + string(ctx.Request.Header.PeekBytes(name)) + ";")
				}
				ctx.WriteString(string(ctx.Request.Header.Peek("x-sum")))
			})
			s.DisableHeaderNamesNormalizing, s.StreamRequestBody = keeps, isStreaming
			want := "X-Sum=1;X-More=2;1"
			if keeps {
				want = "x-sum=1;x-more=2;1"
			}
			head := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n"
			if got := converse(t, s, []byte(head+"0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n")); !strings.HasSuffix(got, "\r\n\r\n"+want) {
				t.Errorf("stream=%v: %q, want %q", isStreaming, got, want)
			}
		}
	}
}
