package http2_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestHTTP2Request: what a handler sees of a request.
func TestHTTP2Request(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			h := &ctx.Request.Header
			fmt.Fprintf(ctx, "%s %s %s %v %s %d %d %v %v %q %d", h.Method(), ctx.URI().FullURI(), h.Protocol(), h.IsHTTP11(),
				ctx.PostBody(), ctx.StreamID(), ctx.ConnRequestNum(), ctx.IsTLS(), ctx.TLSConnectionState() != nil,
				h.Peek("X-A"), h.ContentLength())
			if ctx.ConnID() == 0 || ctx.ID() != ctx.ConnID()<<32|ctx.ConnRequestNum() || ctx.ConnTime().IsZero() || ctx.Time().IsZero() || ctx.RemoteAddr() == nil || ctx.LocalAddr() == nil {
				t.Error("facts of the connection are missing")
			}
		}})
		client := r.HTTP2Client()
		isTLS := n.Scheme() == "https"
		for i, want := range []string{
			fmt.Sprintf(`POST %s://example.com/a?b=c HTTP/2.0 true body 1 1 %v %v "1" 4`, n.Scheme(), isTLS, isTLS),
			fmt.Sprintf(`POST %s://example.com/a?b=c HTTP/2.0 true body 3 2 %v %v "1" 4`, n.Scheme(), isTLS, isTLS),
		} {
			req, _ := http.NewRequest("POST", n.Scheme()+"://example.com/a?b=c", strings.NewReader("body"))
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
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			fmt.Fprintf(ctx, "%s %d", ctx.Request.Header.Protocol(), ctx.StreamID())
		}})
		if got := r.Dial().Get("/"); got.Body != "HTTP/1.1 0" {
			t.Errorf("%q", got.Body)
		}
	})
}

// TestHTTP2Fields: fields have the names and values that HTTP/1.1 would have.
func TestHTTP2Fields(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			h := &ctx.Request.Header
			var names []string
			for name, value := range h.All() {
				names = append(names, string(name)+"="+string(value))
			}
			slices.Sort(names)
			_, _, _ = h.RawHeaders(), h.String(), h.Len()
			var copied sluice.Request
			ctx.Request.CopyTo(&copied)
			fmt.Fprintf(ctx, "%s %s %s %s %s", names, h.Cookie("b"), h.UserAgent(), ctx.Host(), copied.Header.Protocol())
			ctx.Response.Header.Set("X-Upper", "a\r\nb")
			ctx.Response.Header.SetCookie(&sluice.Cookie{})
		}})
		f := r.Frames()
		for stream := range uint32(2) {
			f.Head(2*stream+1, "GET", "/", true, "user-agent", "u", "cookie", "a=1", "cookie", "b=2", "x-a", "1", "x-a", "2", "te", "trailers")
			const want = "200 [Cookie=a=1; b=2 Host=h Te=trailers User-Agent=u X-A=1 X-A=2] 2 u h HTTP/2.0 ."
			if got := f.Describe(); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
	})
}

// TestHTTP2Authority: what names the host of a request.
func TestHTTP2Authority(t *testing.T) {
	r := harness.ServeHTTP2(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "%s %s %s", ctx.Method(), ctx.Host(), ctx.RequestURI())
	}})
	f := r.Frames()
	for i, test := range []struct{ fields, want string }{
		{":method GET :scheme http :authority a :path /x", "200 GET a /x ."},
		{":method GET :scheme http :path /x host a", "200 GET a /x ."},
		{":method GET :scheme http :authority a :path /x host a", "200 GET a /x ."},
		{":method GET :scheme http :authority a :path /x host b", "PROTOCOL_ERROR"},
		{":method OPTIONS :scheme http :authority a :path *", "200 OPTIONS a * ."},
		{":method CONNECT :authority a:1", "200 CONNECT a:1 a:1 ."},
		{":method GET :scheme http :authority a", "PROTOCOL_ERROR"},
		{":method GET :scheme http :authority a :path x", "PROTOCOL_ERROR"},
	} {
		f.Send(uint32(2*i+1), true, strings.Fields(test.fields))
		if got := f.Describe(); got != test.want {
			t.Errorf("%s: %s, want %s", test.fields, got, test.want)
		}
	}
}

// TestHTTP2PlainConnect: a client of CONNECT waits for the answer, so the handler gets the
// request without the end of the stream. There is no tunnel.
func TestHTTP2PlainConnect(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		for _, isStreamed := range []bool{false, true} {
			f := harness.ServeHTTP2(t, n, &sluice.Server{StreamRequestBody: isStreamed, Logger: &harness.LogBook{}, Handler: func(ctx *sluice.RequestCtx) {
				switch string(ctx.Host()) {
				case "refused:1":
					ctx.SetStatusCode(sluice.StatusForbidden)
				case "hijacked:1":
					ctx.Hijack(func(net.Conn) {})
				}
				ctx.SetBodyString(string(ctx.Method()))
			}}).Frames()
			for i, want := range []string{"403 CONNECT .", "501 Not Implemented .", "200 CONNECT ."} {
				id := uint32(2*i + 1)
				f.Send(id, false, []string{":method", "CONNECT", ":authority", []string{"refused:1", "hijacked:1", "other:1"}[i]})
				if got := f.Describe(); got != want {
					t.Errorf("streamed %v: %s, want %s", isStreamed, got, want)
				}
				if got := f.Describe(); got != "NO_ERROR" {
					t.Errorf("streamed %v: %s after the answer", isStreamed, got)
				}
			}
		}
	})
}

// TestHTTP2Conn: what handlers can do with RequestCtx.Conn, which has the bytes of other
// requests, too.
func TestHTTP2Conn(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		conns := make(chan net.Conn, 1)
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			c := ctx.Conn()
			_, readErr := c.Read(make([]byte, 1))
			_, writeErr := c.Write([]byte("x"))
			at := time.Now().Add(-time.Hour)
			for i, err := range []error{readErr, writeErr, c.SetDeadline(at), c.SetReadDeadline(at), c.SetWriteDeadline(at)} {
				if err != sluice.ErrNotSupportedHTTP2 {
					t.Errorf("%d: %v", i, err)
				}
			}
			state := c.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState()
			if state.HandshakeComplete != (n.Scheme() == "https") || c.RemoteAddr() == nil || ctx.Conn() != c {
				t.Errorf("the state of TLS is %v, the address %v", state, c.RemoteAddr())
			}
			if string(ctx.Path()) == "/close" {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			conns <- c
		}})
		f := r.Frames()
		f.Head(1, "GET", "/close", true)
		if got := f.Describe(); got != "CANCEL" {
			t.Errorf("closed: %s", got)
		}
		f.Head(3, "GET", "/", true)
		if got := f.Describe(); got != "200 ." {
			t.Error(got)
		}
		c := harness.Receive(t, conns)
		harness.Eventually(t, "the request has ended", func() bool { return c.Close() == net.ErrClosed })
	})
}
