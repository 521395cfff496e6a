package sluicetest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// A handler's answer is what a client would get.
func TestRecord(t *testing.T) {
	CheckLeaks(t)
	for _, c := range []struct {
		name          string
		req           *sluice.Request
		h             sluice.RequestHandler
		status        int
		body, trailer string
	}{
		{"plain", NewRequest("GET", "/a?b=c", ""), func(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "%s %s", ctx.URI().QueryString(), ctx.Host()) }, 200, "b=c example.com", ""},
		{"path as it is", NewRequest("GET", "/a%2Fb/../c//d?e", ""), func(ctx *sluice.RequestCtx) { ctx.Write(ctx.RequestURI()) }, 200, "/a%2Fb/../c//d?e", ""},
		{"address", NewRequest("GET", "/", ""), func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, ctx.RemoteAddr(), ctx.RemoteIP()) }, 200, "192.0.2.1:1234 192.0.2.1", ""},
		{"a URL", NewRequest("GET", "http://localhost/a", ""), func(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "%s %s", ctx.Path(), ctx.Host()) }, 200, "/a localhost", ""},
		{"body", NewRequest("PUT", "/", strings.Repeat("x", 8<<20)), func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, len(ctx.PostBody())) }, 200, "8388608", ""},
		{"unread body", NewRequest("PUT", "/", strings.Repeat("x", 8<<20)), func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(413) }, 413, "", ""},
		{"HEAD", NewRequest("HEAD", "/", ""), func(ctx *sluice.RequestCtx) { ctx.WriteString("body") }, 200, "", ""},
		{"stream", NewRequest("GET", "/", ""), func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.AddTrailer("Sum")
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("one,"); w.Flush(); w.WriteString("two") })
			ctx.Response.Header.Set("Sum", "7")
		}, 200, "one,two", "7"},
		{"panic", NewRequest("GET", "/", ""), func(*sluice.RequestCtx) { panic("on purpose") }, 500, "", ""},
		{"hijacked", NewRequest("GET", "/", ""), func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(101)
			ctx.Hijack(func(c net.Conn) { bufio.NewReader(c).ReadByte() })
		}, 101, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := Record(t, c.h, c.req)
			if resp.StatusCode() != c.status || c.body != "" && string(resp.Body()) != c.body || len(resp.Header.Peek("Date")) == 0 && c.status != 101 {
				t.Errorf("%v", resp)
			}
			if got := string(resp.Header.Peek("Sum")); got != c.trailer {
				t.Errorf("trailer %q", got)
			}
		})
	}
}

// A request that cannot be sent ends the test, with the reason.
func TestRecordRefuses(t *testing.T) {
	f := &fakeT{TB: t}
	req := NewRequest("GET", "/", "")
	req.SetRequestURI("http://[::1/")
	ended := make(chan bool)
	go func() {
		defer close(ended)
		Record(f, answer, req)
	}()
	if <-ended; !strings.Contains(f.finish(), "the request cannot be sent: ") {
		t.Errorf("%q", f.errors)
	}
}
