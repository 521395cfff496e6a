package message_test

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestResponseParsedState(t *testing.T) {
	for _, c := range []struct {
		in      string
		status  int
		message string
		length  int
		close   bool
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", 200, "OK", 4, false},
		{"HTTP/1.1 404 Nix da\r\n\r\n", 404, "Nix da", -2, true},
		{"HTTP/1.1 404 \r\n\r\n", 404, "", -2, true},
		{"HTTP/1.1 404\r\n\r\n", 404, "", -2, true},
		{"HTTP/1.1 204 No Content\r\n\r\n", 204, "No Content", -2, false},
		{"HTTP/1.1 304 x\r\n\r\n", 304, "x", -2, false},
		{"HTTP/1.1 100 Continue\r\n\r\n", 100, "Continue", -2, false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "OK", -1, false},
		{"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n", 200, "OK", 4, true},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\n", 200, "OK", 4, false},
		{"HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 4\r\n\r\n", 200, "OK", 4, true},
	} {
		h := harness.ReadResponse(t, c.in)
		if h.StatusCode() != c.status || string(h.StatusMessage()) != c.message || h.ContentLength() != c.length || h.ConnectionClose() != c.close {
			t.Errorf("%q: %d %q, length %d, close %v", c.in, h.StatusCode(), h.StatusMessage(), h.ContentLength(), h.ConnectionClose())
		}
	}
}

func TestResponseTypedSetters(t *testing.T) {
	var q sluice.RequestHeader
	q.SetContentTypeBytes([]byte("t"))
	q.SetContentEncodingBytes([]byte("br"))
	q.SetUserAgentBytes([]byte("a"))
	q.SetRefererBytes([]byte("r"))
	q.SetHostBytes([]byte("h"))
	if got, want := fieldsOf(q.All()), "Host=h Content-Type=t User-Agent=a Content-Encoding=br Referer=r"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var h sluice.ResponseHeader
	h.SetLastModified(time.Date(2009, 11, 10, 23, 0, 0, 0, time.UTC))
	if got := string(h.Peek("Last-Modified")); got != "Tue, 10 Nov 2009 23:00:00 GMT" {
		t.Errorf("Last-Modified: %q", got)
	}
	for _, c := range []struct {
		start, end, length int
		want               string
	}{{0, 9, 100, "bytes 0-9/100"}, {0, 9, -1, "bytes 0-9/*"}, {-1, -1, 10, "bytes */10"}, {5, 4, 10, "bytes */10"}} {
		h.SetContentRange(c.start, c.end, c.length)
		if got := string(h.Peek("Content-Range")); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	h.SetContentTypeBytes([]byte("t"))
	h.SetContentEncodingBytes([]byte("br"))
	h.SetServerBytes([]byte("s"))
	if string(h.ContentType()) != "t" || string(h.ContentEncoding()) != "br" || string(h.Server()) != "s" {
		t.Errorf("got %s", fieldsOf(h.All()))
	}
	h.SetContentType("")
	if string(h.ContentType()) != "text/plain; charset=utf-8" {
		t.Errorf("type %q", h.ContentType())
	}
}

func TestResponseContentLength(t *testing.T) {
	var h sluice.ResponseHeader
	h.SetContentLength(-7)
	if h.ContentLength() != -2 || !h.ConnectionClose() {
		t.Errorf("length %d, close %v", h.ContentLength(), h.ConnectionClose())
	}
	h.Reset()
	h.SetStatusCode(304)
	h.SetContentLength(5)
	if h.ContentLength() != 0 {
		t.Errorf("a 304 has length %d", h.ContentLength())
	}
}

func TestAddVary(t *testing.T) {
	var h sluice.ResponseHeader
	for _, c := range []struct{ name, want string }{
		{"Origin", "Origin"}, {"origin", "Origin"}, {"Accept", "Origin,Accept"},
		{"", "Origin,Accept"}, {"a b", "Origin,Accept"}, {"X\r\nSet-Cookie: a=b", "Origin,Accept"},
	} {
		if h.AddVary(c.name); string(h.Peek("Vary")) != c.want {
			t.Errorf("%s: %q, want %q", c.name, h.Peek("Vary"), c.want)
		}
	}
	h.Set("Vary", "*")
	if h.AddVary("Origin"); string(h.Peek("Vary")) != "*" {
		t.Errorf("%q", h.Peek("Vary"))
	}
}
