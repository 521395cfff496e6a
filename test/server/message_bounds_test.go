package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestEveryNamedSetter: each setter of one field sets that field, and no value
// ends its line.
func TestEveryNamedSetter(t *testing.T) {
	set := map[string][]func(q *sluice.RequestHeader, r *sluice.ResponseHeader, value string){
		"Referer":    {func(q *sluice.RequestHeader, _ *sluice.ResponseHeader, v string) { q.SetReferer(v) }, func(q *sluice.RequestHeader, _ *sluice.ResponseHeader, v string) { q.SetRefererBytes([]byte(v)) }},
		"User-Agent": {func(q *sluice.RequestHeader, _ *sluice.ResponseHeader, v string) { q.SetUserAgent(v) }, func(q *sluice.RequestHeader, _ *sluice.ResponseHeader, v string) { q.SetUserAgentBytes([]byte(v)) }},
		"Host":       {func(q *sluice.RequestHeader, _ *sluice.ResponseHeader, v string) { q.SetHost(v) }, func(q *sluice.RequestHeader, _ *sluice.ResponseHeader, v string) { q.SetHostBytes([]byte(v)) }},
		"Server":     {func(_ *sluice.RequestHeader, r *sluice.ResponseHeader, v string) { r.SetServer(v) }, func(_ *sluice.RequestHeader, r *sluice.ResponseHeader, v string) { r.SetServerBytes([]byte(v)) }},
		"Content-Type": {func(q *sluice.RequestHeader, r *sluice.ResponseHeader, v string) {
			q.SetContentType(v)
			r.SetContentType(v)
		}, func(q *sluice.RequestHeader, r *sluice.ResponseHeader, v string) {
			q.SetContentTypeBytes([]byte(v))
			r.SetContentTypeBytes([]byte(v))
		}},
		"Content-Encoding": {func(q *sluice.RequestHeader, r *sluice.ResponseHeader, v string) {
			q.SetContentEncoding(v)
			r.SetContentEncoding(v)
		}, func(q *sluice.RequestHeader, r *sluice.ResponseHeader, v string) {
			q.SetContentEncodingBytes([]byte(v))
			r.SetContentEncodingBytes([]byte(v))
		}},
	}
	for name, setters := range set {
		for i, setter := range setters {
			var q sluice.RequestHeader
			var r sluice.ResponseHeader
			q.SetNoDefaultContentType(true)
			r.SetNoDefaultContentType(true)
			setter(&q, &r, "x\r\nX-Evil: y")
			want := name + ": x  X-Evil: y\r\n"
			both := q.String() + r.String()
			if !strings.Contains(both, want) || strings.Contains(both, "\nX-Evil") {
				t.Errorf("%s, setter %d: %q", name, i, both)
			}
			if got := string(q.Peek(name)) + string(r.Peek(name)); !strings.HasPrefix(got, "x  X-Evil: y") {
				t.Errorf("%s, setter %d: %q", name, i, got)
			}
		}
	}
}

// TestSettersOfHeaders at the edges of what they take.
func TestSettersOfHeaders(t *testing.T) {
	var q sluice.RequestHeader
	for _, step := range []struct {
		change func()
		get    func() string
		want   string
	}{
		{func() { q.SetProtocol("HTTP/3") }, func() string { return string(q.Protocol()) }, "HTTP/3"},
		{func() { q.SetProtocol("HTTP/1.1") }, func() string { return string(q.Protocol()) }, "HTTP/1.1"},
		{func() { q.SetProtocol("HTTP/1.0") }, func() string { return string(q.Protocol()) }, "HTTP/1.0"},
		{func() { q.SetProtocol("") }, func() string { return string(q.Protocol()) + fmt.Sprint(q.IsHTTP11()) }, "HTTP/1.1true"},
		{func() { q.Set("Cookie", "a") }, func() string { return string(q.Peek("Cookie")) }, "a"},
		{func() { q.Add("Cookie", "b") }, func() string { return string(q.Peek("Cookie")) }, "a; b"},
		{func() { q.SetCookie("c", "d"); q.DelCookie("") }, func() string { return string(q.Peek("Cookie")) }, "c=d"},
		{func() { q.Set("Cookie", "e"); q.DelCookie("c") }, func() string { return string(q.Peek("Cookie")) }, "e"},
		{func() { q.Set("Connection", " close ") }, func() string { return string(q.Peek("Connection")) }, "close"},
		{func() { q.SetMultipartFormBoundary("a-b") }, func() string { return string(q.ContentType()) }, "multipart/form-data; boundary=a-b"},
		{func() { q.SetMultipartFormBoundary("a\"b c\\") }, func() string { return string(q.ContentType()) }, "multipart/form-data; boundary=\"ab c\""},
	} {
		step.change()
		if got := step.get(); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	var r sluice.ResponseHeader
	r.SetNoDefaultContentType(true)
	r.DelClientCookie("k")
	if got := string(r.PeekCookie("k")); got != "k=; expires=Tue, 10 Nov 2009 23:00:00 GMT" {
		t.Errorf("%q", got)
	}
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nX: a, close\r\nConnection: close\r\n\r\n")
	h.ResetConnectionClose()
	if got := h.String(); got != "GET / HTTP/1.1\r\nHost: h\r\nX: a, close\r\n\r\n" {
		t.Errorf("%q", got)
	}
	h = harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: upgrade\r\n\r\n")
	if !h.ConnectionUpgrade() {
		t.Error("the second Connection field is not looked at")
	}
	for _, header := range []interface {
		io.WriterTo
		Write(w *bufio.Writer) error
	}{h, &r} {
		if _, err := header.WriteTo(&harness.CutWriter{}); err != harness.ErrWire {
			t.Error(err)
		}
		if err := header.Write(bufio.NewWriterSize(&harness.CutWriter{}, 16)); err != harness.ErrWire {
			t.Error(err)
		}
	}
}

// TestMaxAgeBounds: see RFC 6265 section 5.2.2.
func TestMaxAgeBounds(t *testing.T) {
	for value, want := range map[string]int{
		"1": 1, "0": -1, "-1": -1, "-0": -1, "": 0, "-": 0, "+1": 0, "1x": 0, fmt.Sprint(math.MaxInt): math.MaxInt, fmt.Sprint(uint64(math.MaxInt) + 1): 0, "99999999999999999999999": 0,
	} {
		var c sluice.Cookie
		if err := c.Parse("a=b; Max-Age=" + value); err != nil || c.MaxAge() != want {
			t.Errorf("%q: %d, %v", value, c.MaxAge(), err)
		}
	}
}

// TestReceivedTrailersStay: without an announcement they are trailer fields.
func TestReceivedTrailersStay(t *testing.T) {
	for remove, use := range map[string]func(h *sluice.ResponseHeader) error{
		"SetTrailer": func(h *sluice.ResponseHeader) error { return h.SetTrailer("") },
		"Del":        func(h *sluice.ResponseHeader) error { h.Del("Trailer"); return nil },
	} {
		h := harness.ReadResponse(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		if err := errors.Join(h.ReadTrailer(harness.Reader("A: 1\r\nA: 2\r\nB: 3\r\n\r\n")), use(h)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s", h.PeekTrailerKeys(), h.TrailerHeader()); got != "[A B] A: 1\r\nA: 2\r\nB: 3\r\n\r\n" {
			t.Errorf("%s: %q", remove, got)
		}
	}
	// Fields that occur once are removed from the trailer section, too.
	for _, name := range []string{"Server", "User-Agent", "X-Y"} {
		var h sluice.ResponseHeader
		if err := h.AddTrailer(name); err != nil {
			t.Fatal(name, err)
		}
		for _, value := range []string{"1", "2"} {
			h.Set(name, value)
			if got := string(h.TrailerHeader()); got != name+": "+value+"\r\n\r\n" {
				t.Errorf("%q", got)
			}
		}
		h.Del(name)
		if got := string(h.TrailerHeader()); got != "\r\n" || string(h.Peek("Trailer")) != name {
			t.Errorf("%s: %q, %q", name, got, h.Peek("Trailer"))
		}
	}
}

// TestConnectTargets: the target of CONNECT is host:port.
func TestConnectTargets(t *testing.T) {
	for target, want := range map[string]string{
		"host:443": "host:443 Host: host:443", "http://host/x": "host:80 Host: host", "https://host": "host:443 Host: host", "http://host:81/": "host:81 Host: host:81",
		"/x:1": "", ":443": "", "": "",
	} {
		var q sluice.Request
		q.Header.SetMethod(sluice.MethodConnect)
		q.SetRequestURI(target)
		got := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(q.String(), "CONNECT "), "\r\n\r\n"), " HTTP/1.1\r\n", " ")
		if got != want && (want != "" || strings.Contains(got, "Host")) {
			t.Errorf("%q: %q", target, got)
		}
	}
}

// TestTheURIOfARequest: whatever sets it last counts.
func TestTheURIOfARequest(t *testing.T) {
	var q sluice.Request
	q.SetRequestURI("http://one/a")
	if got := string(q.URI().Host()); got != "one" {
		t.Error(got)
	}
	q.SetRequestURI("http://two/b")
	if got := string(q.URI().Host()) + string(q.URI().Path()); got != "two/b" {
		t.Error(got)
	}
	args := q.URI().QueryArgs()
	args.Set("k", "v")
	q.SetRequestURI("/b")
	if q.URI(); args.Len() != 0 {
		t.Errorf("%s remains", args)
	}
	q.URI().DisablePathNormalizing = true
	q.SetRequestURI("/a/../b")
	q.Header.SetHost("h")
	if got := string(q.URI().Path()); got != "/b" || q.URI().DisablePathNormalizing {
		t.Error(got, q.URI().DisablePathNormalizing)
	}
	q.Header.SetHost("")
	q.SetRequestURI("http://[bad/")
	q.URI()
	if err := q.Write(bufio.NewWriter(io.Discard)); err == nil {
		t.Error("a bad URI is written")
	}
	var u sluice.URI
	if err := u.Parse(nil, []byte("http://user:word@three/c")); err != nil {
		t.Fatal(err)
	}
	q.SetURI(&u)
	if got := q.String(); got != "GET /c HTTP/1.1\r\nHost: three\r\nAuthorization: Basic dXNlcjp3b3Jk\r\n\r\n" {
		t.Errorf("%q", got)
	}
	u.Update("d")
	if got := string(u.Username()) + string(u.Password()) + u.String(); got != "http://three/d" {
		t.Errorf("%q", got)
	}
	if _, err := u.WriteTo(&harness.CutWriter{}); err != harness.ErrWire {
		t.Error(err)
	}
}

// TestSchemes: a scheme is a letter, then letters, digits, "+", "-" and ".".
func TestSchemes(t *testing.T) {
	for c := range 256 {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		for scheme, want := range map[string]bool{
			string([]byte{byte(c)}):           letter,
			string([]byte{'x', byte(c), 'y'}): letter || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.',
		} {
			var u sluice.URI
			err := u.Parse([]byte("base"), []byte(scheme+"://host/"))
			if got := err == nil && string(u.Host()) == "host"; got != want {
				t.Errorf("%q: %v, %s", scheme, err, u.String())
			}
		}
	}
}

// TestLengthsOfMessages: writing and reading a body sets the length of the head.
func TestLengthsOfMessages(t *testing.T) {
	var r sluice.Response
	r.SetBodyStream(strings.NewReader("abc"), 3)
	if r.Header.ContentLength() != 3 {
		t.Error(r.Header.ContentLength())
	}
	r.SetBodyString("abcd")
	if _ = r.String(); r.Header.ContentLength() != 4 {
		t.Error(r.Header.ContentLength())
	}
	if err := errors.Join(r.ReadBody(harness.Reader("1234"), 0), r.ReadBody(harness.Reader("5678"), 0)); err != nil || string(r.Body()) != "5678" {
		t.Errorf("%q, %v", r.Body(), err)
	}
	r.Header.SetContentLength(98765)
	if got := string(r.Header.Peek("Content-Length")); got != "98765" {
		t.Error(got)
	}
	var q sluice.Request
	q.SetRequestURI("http://h/")
	q.Header.SetMethod(sluice.MethodPut)
	q.SetBodyString("old")
	q.SetBodyStream(strings.NewReader("abc"), 3)
	if q.Header.ContentLength() != 3 {
		t.Error(q.Header.ContentLength())
	}
	if err := q.CloseBodyStream(); err != nil || len(q.Body()) != 0 {
		t.Errorf("%q, %v", q.Body(), err)
	}
	q.SetBodyStream(strings.NewReader("abc"), 3)
	q.Header.SetContentLength(7)
	if _ = q.String(); q.Header.ContentLength() != 3 {
		t.Error(q.Header.ContentLength())
	}
	if err := q.ReadBody(harness.Reader("12345"), -2, 0); err != nil || string(q.Body()) != "12345" || q.Header.ContentLength() != 5 {
		t.Errorf("%q, %v", q.Body(), err)
	}
	for limit, want := range map[int]error{5: nil, 4: sluice.ErrBodyTooLarge} {
		if err := q.ReadBody(harness.Reader("12345"), -2, limit); err != want || len(q.Body()) != 5 && err == nil || len(q.Body()) != 0 && err != nil {
			t.Errorf("limit %d: %q, %v", limit, q.Body(), err)
		}
	}
	q.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("x") })
	if q.Header.ContentLength() != -1 {
		t.Error(q.Header.ContentLength())
	}
}

// TestFramingOfWrittenMessages: how a body is announced.
func TestFramingOfWrittenMessages(t *testing.T) {
	response := func(change func(r *sluice.Response)) string {
		var r sluice.Response
		r.Header.SetNoDefaultContentType(true)
		change(&r)
		got, _, _ := strings.Cut(r.String(), "\r\n\r\n")
		lines := strings.Split(got, "\r\n")
		return strings.Join(lines[2:], "|") // without status line and Date
	}
	request := func(change func(q *sluice.Request)) string {
		var q sluice.Request
		q.SetRequestURI("http://h/")
		q.Header.SetMethod(sluice.MethodPost)
		change(&q)
		got := strings.Split(q.String(), "\r\n")
		return strings.Join(got[1:], "|")
	}
	for got, want := range map[string]string{
		response(func(r *sluice.Response) { r.SkipBody = true }):                                                  "",
		response(func(r *sluice.Response) { r.SkipBody = true; r.Header.SetContentLength(0) }):                    "Content-Length: 0",
		response(func(r *sluice.Response) { r.SkipBody = true; r.Header.SetContentLength(7) }):                    "Content-Length: 7",
		response(func(r *sluice.Response) { r.SkipBody = true; r.SetBodyString("a"); r.Header.AddTrailer("X") }):  "Content-Length: 1|Trailer: X",
		response(func(r *sluice.Response) { r.SetStatusCode(205); r.SetBodyString("a"); r.SetConnectionClose() }): "Content-Length: 0|Connection: close",
		response(func(r *sluice.Response) { r.SetBodyString("b"); r.Header.AddTrailer("X") }):                     "Transfer-Encoding: chunked|Trailer: X",
		response(func(r *sluice.Response) {
			r.Header.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyStream(harness.StreamOf("x"), -1)
		}): "Connection: close",
		response(func(r *sluice.Response) { r.SetBodyStream(harness.StreamOf("x"), -2) }):          "Transfer-Encoding: chunked|Connection: close",
		request(func(q *sluice.Request) { q.SetBodyString("a") }):                                  "Host: h|Content-Type: application/octet-stream|Content-Length: 1||a",
		request(func(q *sluice.Request) {}):                                                        "Host: h|Content-Length: 0||",
		request(func(q *sluice.Request) { q.Header.DisableSpecialHeader(); q.SetBodyString("a") }): "Host: h|Content-Length: 1||a",
		request(func(q *sluice.Request) {
			q.Header.DisableSpecialHeader()
			q.SetBodyString("a")
			q.Header.AddTrailer("X-T")
		}): "Host: h|Transfer-Encoding: chunked|Trailer: X-T||1|a|0||",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var h sluice.ResponseHeader
	h.SetLastModified(time.Unix(0, 0))
	if got := string(h.Peek("Last-Modified")); got != "Thu, 01 Jan 1970 00:00:00 GMT" {
		t.Error(got)
	}
}
