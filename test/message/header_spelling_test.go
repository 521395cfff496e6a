package message_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// The tests of this file: what the library reads and removes on its own account is found
// in any spelling, even if names are kept or were set with SetCanonical.

// TestRawHeaderHasOneFraming: fields that frame a request or name its host are
// known to a header without special treatment, however their names are spelled.
func TestRawHeaderHasOneFraming(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"content-length", "5", "Content-Length: 3\r\nHost: h\r\n\r\nabc"},
		{"CONTENT-length", "x", "Host: h\r\nContent-Length: 3\r\n\r\nabc"},
		{"transfer-encoding", "chunked", "Host: h\r\nContent-Length: 3\r\n\r\nabc"},
		{"host", "other", "Host: h\r\nContent-Length: 3\r\n\r\nabc"},
		{"connection", "close", "Connection: close\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"},
		{"x-other", "1", "x-other: 1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"},
	} {
		var r sluice.Request
		r.Header.DisableSpecialHeader()
		r.Header.SetMethod("POST")
		r.Header.SetCanonical([]byte(c.name), []byte(c.value))
		r.SetRequestURI("http://h/")
		r.URI()
		r.SetBodyString("abc")
		if got := strings.TrimPrefix(r.String(), "POST / HTTP/1.1\r\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCredentialsInAnySpelling do not reach another origin.
func TestCredentialsInAnySpelling(t *testing.T) {
	names := []string{"authorization", "AUTHORIZATION", "proxy-authorization", "cookie", "cookie2", "www-authenticate"}
	for set, change := range map[string]func(h *sluice.RequestHeader, name string){
		"names kept": func(h *sluice.RequestHeader, name string) { h.DisableNormalizing(); h.Set(name, "secret=1") },
		"canonical":  func(h *sluice.RequestHeader, name string) { h.SetCanonical([]byte(name), []byte("secret=1")) },
		"raw": func(h *sluice.RequestHeader, name string) {
			h.DisableSpecialHeader()
			h.SetCanonical([]byte(name), []byte("secret=1"))
		},
	} {
		var h sluice.RequestHeader
		for _, name := range names {
			change(&h, name)
		}
		h.Set("X-Other", "kept")
		if got := strings.Count(h.String(), "secret"); got < len(names)-2 {
			t.Fatalf("%s: %d secrets were set", set, got)
		}
		if h.DelCredentials(); strings.Contains(h.String(), "secret") || !strings.Contains(h.String(), "X-Other: kept") {
			t.Errorf("%s: %q", set, h.String())
		}
	}
}

// TestRedirectInAnySpelling: a client that keeps names follows a Location of any spelling,
// as every server of HTTP/2 sends it.
func TestRedirectInAnySpelling(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for r := c.Request(); r != nil; r = c.Request() {
			if string(r.Header.RequestURI()) == "/a" {
				c.Send("HTTP/1.1 302 R\r\nlocation: /b\r\nContent-Length: 0\r\n\r\n")
			} else {
				c.Send(harness.OKAnswer)
			}
		}
	})
	client := harness.RedirectNet(p)
	client.DisableHeaderNamesNormalizing = true
	req, resp := harness.NewCall("GET", "http://one.test/a")
	if err := client.DoRedirects(req, resp, 1); err != nil || string(req.URI().Path()) != "/b" {
		t.Errorf("%v, at %s", err, req.URI())
	}
}

// TestCompressHandlerInAnySpelling: no-transform is found in every field of
// Cache-Control, and a strong ETag becomes a weak one.
func TestCompressHandlerInAnySpelling(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(h *sluice.ResponseHeader)
		want string
	}{
		"cache-control": {func(h *sluice.ResponseHeader) { h.Set("cache-control", "no-transform") }, `"a"`},
		"second field": {func(h *sluice.ResponseHeader) {
			h.Set("Cache-Control", "public")
			h.Add("Cache-Control", "no-transform")
		}, `"a"`},
		"neither": {func(h *sluice.ResponseHeader) { h.Set("cache-control", "public") }, `gzip W/"a"`},
	} {
		r := &harness.EncodedBy(sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			harness.TextHandler(ctx)
			ctx.Response.Header.DisableNormalizing()
			ctx.Response.Header.Set("etag", `"a"`)
			c.set(&ctx.Response.Header)
		}), "GET", "gzip").Response
		tags := r.Header.PeekAll("etag")
		if got := strings.TrimSpace(string(r.Header.ContentEncoding()) + " " + string(tags[0])); got != c.want || len(r.Header.PeekAll("Etag")) > 0 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestIfModifiedSinceInAnySpelling: a client of a server that keeps names is not sent
// what it has.
func TestIfModifiedSinceInAnySpelling(t *testing.T) {
	var ctx sluice.RequestCtx
	then := time.Unix(1e9, 0)
	ctx.Request.Header.DisableNormalizing()
	ctx.Request.Header.Set("if-modified-since", string(sluice.AppendHTTPDate(nil, then)))
	if ctx.IfModifiedSince(then) || !ctx.IfModifiedSince(then.Add(time.Hour)) {
		t.Error("the field was not read")
	}
}
