//lint:file-ignore SA1019 what is deprecated works, too

package message_test

import (
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestRequestStartLine(t *testing.T) {
	h := harness.ReadRequest(t, "POST http://a/b?c HTTP/1.1\r\nHost: h\r\n\r\n")
	if !h.IsPost() || string(h.RequestURI()) != "http://a/b?c" || string(h.Host()) != "h" {
		t.Errorf("%s %s", h.Method(), h.RequestURI())
	}
	// Setters must not write into the raw head.
	h.SetMethod("DELETE")
	h.SetRequestURI("/new")
	if string(h.RawHeaders()) != "Host: h\r\n\r\n" || h.String() != "DELETE /new HTTP/1.1\r\nHost: h\r\n\r\n" {
		t.Errorf("got %q", h.String())
	}
	h.SetMethod("")
	h.SetRequestURIBytes(nil)
	if !h.IsGet() || string(h.RequestURI()) != "/" {
		t.Errorf("got %q", h.String())
	}
}

func TestRequestMethods(t *testing.T) {
	is := map[string]func(*sluice.RequestHeader) bool{
		"GET": (*sluice.RequestHeader).IsGet, "HEAD": (*sluice.RequestHeader).IsHead, "POST": (*sluice.RequestHeader).IsPost, "PUT": (*sluice.RequestHeader).IsPut,
		"DELETE": (*sluice.RequestHeader).IsDelete, "PATCH": (*sluice.RequestHeader).IsPatch, "CONNECT": (*sluice.RequestHeader).IsConnect,
		"OPTIONS": (*sluice.RequestHeader).IsOptions, "TRACE": (*sluice.RequestHeader).IsTrace, "QUERY": (*sluice.RequestHeader).IsQuery,
	}
	for method := range is {
		var h sluice.RequestHeader
		h.SetMethodBytes([]byte(method))
		for name, f := range is {
			if f(&h) != (name == method) {
				t.Errorf("%s: Is %s = %v", method, name, f(&h))
			}
		}
	}
	for in, want := range map[string]string{"get": "get", "X-Y": "X-Y", "G T": "GET", "A\r\n": "GET", "é": "GET", "": "GET"} {
		var h sluice.RequestHeader
		h.SetMethod("PUT")
		h.SetMethod(in)
		if got := string(h.Method()); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRequestParsedState(t *testing.T) {
	for _, c := range []struct {
		in     string
		length int
		close  bool
	}{
		{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", -2, false},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 0, false},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", 5, false},
		{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n", -1, false},
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", -2, true},
		{"GET / HTTP/1.0\r\n\r\n", -2, true},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", -2, false},
	} {
		h := harness.ReadRequest(t, c.in)
		if h.ContentLength() != c.length || h.ConnectionClose() != c.close {
			t.Errorf("%q: length %d, close %v", c.in, h.ContentLength(), h.ConnectionClose())
		}
	}
}

func TestRequestOrders(t *testing.T) {
	const lines = "X-b: 1\r\nhost: h\r\ncookie: a=b\r\nx-a:  2 \r\nUser-Agent: ua\r\nX-B: 3\r\nConnection: keep-alive\r\n\r\n"
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\n"+lines+"body")
	h.Set("x-a", "changed")
	h.Del("host")
	if got, want := fieldsOf(h.AllInOrder()), "X-B=1 Host=h Cookie=a=b X-A=2 User-Agent=ua X-B=3 Connection=keep-alive"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fieldsOf(h.All()), "User-Agent=ua Cookie=a=b X-B=1 X-A=changed X-B=3 Connection=keep-alive"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(h.RawHeaders()); got != lines {
		t.Errorf("raw %q", got)
	}
	if got := harness.ReadRequest(t, "GET / HTTP/1.0\r\n\r\n").RawHeaders(); got == nil || len(got) != 0 {
		t.Errorf("without fields: %q", got)
	}
	n := 0
	h.VisitAllInOrder(func(_, _ []byte) { n++ })
	for range h.AllInOrder() {
		n++
		break
	}
	h.VisitAll(func(_, _ []byte) { n++ })
	if n != 7+1+6 {
		t.Errorf("%d fields", n)
	}
	var kept sluice.RequestHeader
	kept.DisableNormalizing()
	if err := kept.Read(harness.Reader("GET / HTTP/1.1\r\n" + lines)); err != nil {
		t.Fatal(err)
	}
	if got, want := fieldsOf(kept.AllInOrder()), "X-b=1 host=h cookie=a=b x-a=2 User-Agent=ua X-B=3 Connection=keep-alive"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fieldsOf(kept.All()), "Host=h User-Agent=ua Cookie=a=b X-b=1 x-a=2 X-B=3 Connection=keep-alive"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if kept.Peek("X-A") != nil || string(kept.Peek("x-a")) != "2" {
		t.Error("names are not compared as they are")
	}
	var raw sluice.RequestHeader
	raw.DisableSpecialHeader()
	if err := raw.Read(harness.Reader("GET / HTTP/1.1\r\n" + lines)); err != nil {
		t.Fatal(err)
	}
	if got, want := raw.String(), "GET / HTTP/1.1\r\nX-B: 1\r\nHost: h\r\nCookie: a=b\r\nX-A: 2\r\nUser-Agent: ua\r\nX-B: 3\r\nConnection: keep-alive\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSetByteRange(t *testing.T) {
	for _, c := range []struct {
		start, end int
		want       string
	}{{0, 9, "bytes=0-9"}, {5, -1, "bytes=5-"}, {-5, 0, "bytes=-5"}, {-5, -1, "bytes=-5"}, {1234, 5678, "bytes=1234-5678"}} {
		var h sluice.RequestHeader
		h.SetByteRange(c.start, c.end)
		if got := string(h.Peek("Range")); got != c.want {
			t.Errorf("%d, %d: %q, want %q", c.start, c.end, got, c.want)
		}
	}
}

func TestHasAcceptEncoding(t *testing.T) {
	for _, c := range []struct {
		field, coding string
		want          bool
	}{
		{"gzip", "gzip", true}, {"gzip, br", "br", true}, {"gzip,br", "br", true}, {"GZIP", "gzip", true}, {"gzip", "GZip", true},
		{"x-gzip", "gzip", false}, {"gzipped", "gzip", false}, {"", "gzip", false}, {"gzip", "", false}, {"*", "gzip", false},
		{"gzip;q=0", "gzip", false}, {"gzip; q=0.000", "gzip", false}, {"gzip ; Q = 0.", "gzip", false}, {"gzip;q=0.001", "gzip", true},
		{"gzip;q=1", "gzip", true}, {"gzip;x=0;q=0", "gzip", false}, {"gzip;q=0, gzip", "gzip", true}, {"br;q=0,gzip", "gzip", true}, {"gzip;q=", "gzip", true},
	} {
		var h sluice.RequestHeader
		h.Set("Accept-Encoding", c.field)
		if got := h.HasAcceptEncoding(c.coding); got != c.want {
			t.Errorf("%q has %q: %v", c.field, c.coding, got)
		}
	}
	var h sluice.RequestHeader
	h.Add("Accept-Encoding", "gzip")
	h.Add("Accept-Encoding", "br")
	if !h.HasAcceptEncodingBytes([]byte("br")) {
		t.Error("the second field is ignored")
	}
}

func TestMultipartFormBoundary(t *testing.T) {
	for in, want := range map[string]string{
		"multipart/form-data; boundary=xy": "xy", "MULTIPART/Form-Data;BOUNDARY=xy": "xy", "multipart/form-data ; a=b; boundary=\"x y\"; c=d": "x y",
		"multipart/form-data; boundary=----=_Part_1; c": "----=_Part_1", "multipart/form-data; a=\"; boundary=no\"; boundary=yes": "yes",
		"multipart/form-data; flag; boundary=z": "z", "multipart/form-data; boundary=xy ; c=d": "xy", "multipart/form-data; boundary=\"open": "\"open",
		"multipart/form-data": "", "multipart/mixed; boundary=xy": "", "multipart/form-data; xboundary=q": "", "multipart/form-data; boundary=": "", "": "",
		"multipart/form-data; boundary =xy": "", "multipart/form-data; boundary\t=xy; boundary=z": "", "multipart/form-data; boundary= xy ; c=d": " xy",
		"multipart/form-data; boundary= \"xy\"": " \"xy\"", "multipart/form-data; boundary=\"x\" y": "\"x\" y", "multipart/form-data; a=\"b; boundary=xy": "",
		"multipart/form-data; a = b; boundary=xy": "xy", "multipart/form-data; a= \"q;boundary=n\"; boundary=xy": "xy",
		"multipart/form-data;;boundary=xy": "xy", "multipart/form-data;; ;boundary=xy": "xy",
	} {
		var h sluice.RequestHeader
		h.SetContentType(in)
		if got := string(h.MultipartFormBoundary()); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, boundary := range []string{"abc", "a/b c", "----=_Part_1", "x:y?z"} {
		var h sluice.RequestHeader
		h.SetMultipartFormBoundaryBytes([]byte(boundary))
		if got := string(h.MultipartFormBoundary()); got != boundary {
			t.Errorf("%q became %q in %q", boundary, got, h.ContentType())
		}
	}
}

// TestTargetBeginsWithSlash: a query alone is no target (RFC 9112 section
// 3.2.1).
func TestTargetBeginsWithSlash(t *testing.T) {
	for target, want := range map[string]string{"?a=b": "/?a=b", "?": "/?", "/?a": "/?a", "a?b": "a?b", "": "/"} {
		var h sluice.RequestHeader
		h.SetRequestURI(target)
		if got := string(h.RequestURI()); got != want {
			t.Errorf("%q: RequestURI %q, want %q", target, got, want)
		}
		if got, want := h.String(), "GET "+want+" HTTP/1.1\r\n\r\n"; got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
		var r sluice.Request
		r.Header.SetHost("h")
		r.SetRequestURI(target)
		if got, want := r.String(), "GET "+want+" HTTP/1.1\r\nHost: h\r\n\r\n"; got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
	var h sluice.RequestHeader
	h.SetRequestURI("/a?b=c")
	h.SetRequestURIBytes(h.RequestURI()[2:]) // its own memory
	if got := string(h.RequestURI()); got != "/?b=c" {
		t.Errorf("got %q", got)
	}
}

// TestRawHeaderInPlace: Header writes to the memory of its last result.
func TestRawHeaderInPlace(t *testing.T) {
	var h sluice.RequestHeader
	h.DisableSpecialHeader()
	h.SetMethod(sluice.MethodPost)
	h.Set("Content-Length", "5")
	for range 3 {
		if got := string(h.Header()); got != "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n" {
			t.Errorf("got %q", got)
		}
	}
}
