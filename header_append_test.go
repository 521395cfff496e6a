package sluice

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

func TestResponseAppendHeadOrder(t *testing.T) {
	var h ResponseHeader
	h.Set("X-B", "1")
	h.Add("Set-Cookie", "a=b")
	h.Set("Connection", "keep-alive")
	h.SetContentEncoding("gzip")
	h.SetContentType("t/t")
	h.SetServer("s")
	h.AddTrailer("Sum")
	h.m.Put("Date", []byte("mine"), message.Sets) // as if it was received
	h.Set("X-A", "2")
	for _, c := range []struct {
		f    message.Framing
		want string
	}{
		{message.Framing{Length: 5}, "Server: s|Content-Type: t/t|Content-Encoding: gzip|Content-Length: 5|X-B: 1|Connection: keep-alive|Date: mine|X-A: 2|Trailer: Sum|Set-Cookie: a=b"},
		{message.Framing{Length: -1, CloseConnection: true}, "Server: s|Content-Type: t/t|Content-Encoding: gzip|Transfer-Encoding: chunked|X-B: 1|Date: mine|X-A: 2|Trailer: Sum|Set-Cookie: a=b|Connection: close"},
		{message.Framing{Length: -2, KeepAlive: true}, "Server: s|Content-Type: t/t|Content-Encoding: gzip|X-B: 1|Connection: keep-alive|Date: mine|X-A: 2|Trailer: Sum|Set-Cookie: a=b"},
	} {
		got := string(h.m.AppendHead([]byte("before "), c.f))
		want := "before HTTP/1.1 200 OK\r\n" + strings.ReplaceAll(c.want, "|", "\r\n") + "\r\n\r\n"
		if got != want {
			t.Errorf("%+v:\n got %q\nwant %q", c.f, got, want)
		}
	}
	now := clock.Nanos()
	date := string(clock.Date(now)[:])
	if got := string(h.m.AppendHead(nil, message.Framing{Date: now})); strings.Count(got, "Date: ") != 1 || !strings.Contains(got, "Server: s\r\nDate: "+date[:20]) {
		t.Errorf("with a Date: %q", got)
	}
}

// TestResponseHeadStart: a head that is written again and again begins with what is
// true now.
func TestResponseHeadStart(t *testing.T) {
	now := clock.Nanos()
	one, other := []byte("one"), []byte("other")
	var h ResponseHeader
	for _, c := range []struct {
		name          string
		change        func()
		date          int64
		status        string
		server        string
		protocolMinor byte
	}{
		{"first", func() { h.m.DefaultServer, h.m.ShowsServer = one, true }, now, "200 OK", "one", '1'},
		{"the same", func() {}, now, "200 OK", "one", '1'},
		{"another status", func() { h.SetStatusCode(404) }, now, "404 Not Found", "one", '1'},
		{"another server", func() { h.m.DefaultServer = other }, now, "404 Not Found", "other", '1'},
		{"a phrase", func() { h.SetStatusMessage([]byte("Gone for now")) }, now, "404 Gone for now", "other", '1'},
		{"after a reset", func() { h.Reset(); h.m.ShowsServer = true }, now, "200 OK", "other", '1'},
		{"a field", func() { h.SetServer("mine") }, now, "200 OK", "mine", '1'},
		{"no field", func() { h.Del("Server"); h.m.ShowsServer = true }, now, "200 OK", "other", '1'},
		{"HTTP/1.0", func() { h.m.IsHTTP10 = true }, now, "200 OK", "other", '0'},
		{"HTTP/1.1", func() { h.m.IsHTTP10 = false }, now, "200 OK", "other", '1'},
		{"no date", func() {}, 0, "200 OK", "other", '1'},
		{"no server", func() { h.m.DefaultServer = nil }, now, "200 OK", "", '1'},
	} {
		c.change()
		want := "HTTP/1." + string(c.protocolMinor) + " " + c.status + "\r\n"
		if c.server != "" {
			want += "Server: " + c.server + "\r\n"
		}
		if c.date != 0 {
			want += "Date: " + string(clock.Date(c.date)[:]) + "\r\n"
		}
		want += "Content-Length: 0\r\n\r\n"
		if got := string(h.m.AppendHead(nil, message.Framing{Length: 0, Date: c.date})); got != want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
		}
	}
}

func TestResponseAppendHeadDefaults(t *testing.T) {
	const plain = "Content-Type: text/plain; charset=utf-8\r\n"
	for _, c := range []struct {
		status    int
		noDefault bool
		f         message.Framing
		want      string
	}{
		{200, false, message.Framing{Length: 5}, plain + "Content-Length: 5\r\n"},
		{200, true, message.Framing{Length: 5}, "Content-Length: 5\r\n"},
		{200, false, message.Framing{Length: 5, OmitDefaultType: true}, "Content-Length: 5\r\n"},
		{200, false, message.Framing{Length: 0}, "Content-Length: 0\r\n"},
		{200, false, message.Framing{Length: -1}, plain + "Transfer-Encoding: chunked\r\n"},
		{200, false, message.Framing{Length: -2, CloseConnection: true}, plain + "Connection: close\r\n"},
		{200, false, message.Framing{Length: 12345, KeepAlive: true}, plain + "Content-Length: 12345\r\nConnection: keep-alive\r\n"},
		{204, false, message.Framing{Length: -2}, ""},
		{304, false, message.Framing{Length: -2}, ""},
		{101, false, message.Framing{Length: -2}, ""},
	} {
		var h ResponseHeader
		h.SetStatusCode(c.status)
		h.SetNoDefaultContentType(c.noDefault)
		want := fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n", c.status, StatusMessage(c.status), c.want)
		if got := string(h.m.AppendHead(nil, c.f)); got != want {
			t.Errorf("%d %+v:\n got %q\nwant %q", c.status, c.f, got, want)
		}
	}
}

// TestResponseFraming checks what a header alone says about a body.
func TestResponseFraming(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(h *ResponseHeader)
		want string
	}{
		{"nothing", func(*ResponseHeader) {}, "200 OK|"},
		{"0", func(h *ResponseHeader) { h.SetContentLength(0) }, "200 OK|Content-Length: 0|"},
		{"chunked", func(h *ResponseHeader) { h.SetContentLength(-1) }, "200 OK|Content-Type: text/plain; charset=utf-8|Transfer-Encoding: chunked|"},
		{"close", func(h *ResponseHeader) { h.SetContentLength(-2) }, "200 OK|Content-Type: text/plain; charset=utf-8|Connection: close|"},
		{"204", func(h *ResponseHeader) { h.SetContentLength(5); h.SetStatusCode(204) }, "204 No Content|"},
		{"204 first", func(h *ResponseHeader) { h.SetStatusCode(204); h.SetContentLength(-1) }, "204 No Content|"},
		{"304", func(h *ResponseHeader) { h.SetContentLength(5); h.SetStatusCode(304) }, "304 Not Modified|Content-Length: 5|"},
		{"304 chunked", func(h *ResponseHeader) { h.SetContentLength(-1); h.SetStatusCode(304) }, "304 Not Modified|"},
		{"304 with type", func(h *ResponseHeader) { h.SetStatusCode(304); h.SetContentType("a") }, "304 Not Modified|Content-Type: a|"},
	} {
		var h ResponseHeader
		c.set(&h)
		want := "HTTP/1.1 " + strings.ReplaceAll(c.want, "|", "\r\n") + "\r\n"
		if got := undated(&h); got != want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
		}
	}
	var h ResponseHeader
	h.SetProtocol([]byte("HTTP/1.0"))
	h.SetContentLength(-1)
	if got := undated(&h); strings.Contains(got, "chunked") || !strings.Contains(got, "Connection: close") {
		t.Errorf("HTTP/1.0: %q", got)
	}
}

func TestResponseStatusLine(t *testing.T) {
	for code, want := range map[int]string{
		200: "200 OK", 404: "404 Not Found", 999: "999 Unknown Status Code", 0: "200 OK",
		-3: "500 Internal Server Error", 42: "500 Internal Server Error", 1000: "500 Internal Server Error",
	} {
		var h ResponseHeader
		h.SetStatusCode(code)
		if got := undated(&h); got != "HTTP/1.1 "+want+"\r\n\r\n" {
			t.Errorf("%d: %q", code, got)
		}
	}
	var h ResponseHeader
	h.SetStatusCode(404)
	h.SetStatusMessage([]byte("Nothing\r\nhere"))
	if got := undated(&h); got != "HTTP/1.1 404 Nothing  here\r\n\r\n" || string(h.StatusMessage()) != "Nothing  here" {
		t.Errorf("got %q", got)
	}
	h.SetStatusMessage([]byte("!"))
	if got := undated(&h); got != "HTTP/1.1 404 !\r\n\r\n" {
		t.Errorf("got %q", got)
	}
	h.SetStatusMessage(nil)
	if got := undated(&h); got != "HTTP/1.1 404 Not Found\r\n\r\n" || h.StatusMessage() != nil {
		t.Errorf("got %q", got)
	}
}

func TestRequestAppendHeadOrder(t *testing.T) {
	var h RequestHeader
	h.SetMethod("POST")
	h.SetRequestURI("/p?q")
	h.Set("X-B", "1")
	h.SetCookie("a", "b")
	h.SetConnectionClose()
	h.SetHost("h")
	h.SetUserAgent("u")
	h.AddTrailer("Sum")
	h.Set("X-A", "2")
	const head = "POST /p?q HTTP/1.1\r\nUser-Agent: u\r\nHost: h\r\n"
	const rest = "X-B: 1\r\nX-A: 2\r\nTrailer: Sum\r\nCookie: a=b\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		f    message.Framing
		want string
	}{
		{message.Framing{Length: 5}, "Content-Type: application/octet-stream\r\nContent-Length: 5\r\n"},
		{message.Framing{Length: 5, OmitDefaultType: true}, "Content-Length: 5\r\n"},
		{message.Framing{Length: 0}, "Content-Length: 0\r\n"},
		{message.Framing{Length: -1}, "Transfer-Encoding: chunked\r\n"},
		{message.Framing{Length: -2, CloseConnection: true}, ""},
	} {
		if got := string(h.m.AppendHead(nil, c.f)); got != head+c.want+rest {
			t.Errorf("%+v:\n got %q\nwant %q", c.f, got, head+c.want+rest)
		}
	}
}

// TestRawRequest: with special fields disabled the order is the user's, and
// the framing is still that of the body.
func TestRawRequest(t *testing.T) {
	var h RequestHeader
	h.DisableSpecialHeader()
	h.DisableNormalizing()
	for _, kv := range [][2]string{{"x", "1"}, {"content-length", "99"}, {"host", "h"}, {"cookie", "a=b"}, {"transfer-encoding", "chunked"},
		{"trailer", "sum"}, {"Content-Length", "abc"}, {"transfer-encoding", "gzip"}, {"user-agent", "u"}} {
		h.Add(kv[0], kv[1])
	}
	for _, c := range []struct {
		f    message.Framing
		want string
	}{
		{message.Framing{Length: 5}, "x: 1|content-length: 5|host: h|cookie: a=b|user-agent: u|Trailer: sum|"},
		{message.Framing{Length: -1}, "x: 1|host: h|cookie: a=b|transfer-encoding: chunked|user-agent: u|Trailer: sum|"},
		{message.Framing{Length: -2, CloseConnection: true}, "x: 1|host: h|cookie: a=b|user-agent: u|Trailer: sum|Connection: close|"},
	} {
		want := "GET / HTTP/1.1\r\n" + strings.ReplaceAll(c.want, "|", "\r\n") + "\r\n"
		if got := string(h.m.AppendHead(nil, c.f)); got != want {
			t.Errorf("%+v:\n got %q\nwant %q", c.f, got, want)
		}
	}
	for fields, want := range map[string]string{
		"":                              "",
		"Connection: x\r\n":             "Connection: x\r\n",
		"Connection: keep-alive, x\r\n": "Connection: keep-alive, x\r\nConnection: close\r\n",
	} {
		var old RequestHeader // whose version says close
		old.DisableSpecialHeader()
		if err := old.Read(reader("GET / HTTP/1.0\r\n" + fields + "\r\n")); err != nil {
			t.Fatal(err)
		}
		old.SetConnectionClose()
		if got := old.String(); got != "GET / HTTP/1.0\r\n"+want+"\r\n" {
			t.Errorf("HTTP/1.0 with %q: %q", fields, got)
		}
	}
	var bare RequestHeader
	bare.DisableSpecialHeader()
	bare.Add("Host", "a")
	if got, want := string(bare.m.AppendHead(nil, message.Framing{Length: 3})), "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !bare.EnableSpecialHeader() || bare.DisableSpecialHeader() {
		t.Error("the previous setting is wrong")
	}
}

// helloHead sets what the answer to a simple request sets.
func helloHead(h *ResponseHeader) {
	h.Reset()
	h.m.DefaultServer, h.m.ShowsServer = []byte("sluice"), true
	h.SetContentType("text/plain")
}

func TestAppendHeadAllocatesNothing(t *testing.T) {
	var h ResponseHeader
	dst := make([]byte, 0, 512)
	server := []byte("sluice")
	now := clock.Nanos()
	n := testing.AllocsPerRun(100, func() {
		h.Reset()
		h.m.DefaultServer, h.m.ShowsServer = server, true
		h.SetContentType("text/plain")
		h.Set("X-Custom", "value")
		dst = h.m.AppendHead(dst[:0], message.Framing{Length: 12, Date: now})
	})
	if n != 0 {
		t.Errorf("response: %v allocations", n)
	}
	var q RequestHeader
	n = testing.AllocsPerRun(100, func() {
		q.Reset()
		q.SetMethod("POST")
		q.SetRequestURI("/path?query")
		q.SetHost("example.com")
		q.Set("X-Custom", "value")
		q.SetCookie("a", "b")
		dst = q.m.AppendHead(dst[:0], message.Framing{Length: 12})
	})
	if n != 0 {
		t.Errorf("request: %v allocations", n)
	}
}

func BenchmarkResponseAppendHead(b *testing.B) {
	var h ResponseHeader
	helloHead(&h)
	dst := make([]byte, 0, 512)
	f := message.Framing{Length: 13, Date: clock.Nanos()}
	b.ReportAllocs()
	for b.Loop() {
		dst = h.m.AppendHead(dst[:0], f)
	}
}

// BenchmarkResponseAppendTenFields is a head of which no two parts are usual.
func BenchmarkResponseAppendTenFields(b *testing.B) {
	var h ResponseHeader
	helloHead(&h)
	for _, name := range []string{HeaderCacheControl, HeaderETag, HeaderVary, HeaderLastModified, "X-Request-Id", "X-Frame-Options", "Permissions-Policy"} {
		h.Set(name, "a value of it")
	}
	h.SetContentEncoding("gzip")
	h.Add(HeaderSetCookie, "session=0123456789abcdef; Path=/; HttpOnly")
	dst := make([]byte, 0, 1024)
	f := message.Framing{Length: -1, Date: clock.Nanos()}
	b.ReportAllocs()
	for b.Loop() {
		dst = h.m.AppendHead(dst[:0], f)
	}
}

func BenchmarkResponseResetSetAppend(b *testing.B) {
	var h ResponseHeader
	dst := make([]byte, 0, 512)
	f := message.Framing{Length: 13, Date: clock.Nanos()}
	server := []byte("sluice")
	b.ReportAllocs()
	for b.Loop() {
		h.Reset()
		h.m.DefaultServer, h.m.ShowsServer = server, true
		h.SetContentType("text/plain")
		dst = h.m.AppendHead(dst[:0], f)
	}
}

const benchHead = "GET /plaintext?x=1 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: bench/1.0\r\nAccept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, br\r\nX-Request-Id: 0123456789\r\n\r\n"

func BenchmarkRequestParse(b *testing.B) {
	var h RequestHeader
	p := h1.HeadParser{Role: h1.Requests, Limits: h1.DefaultLimits}
	in := []byte(benchHead)
	b.ReportAllocs()
	for b.Loop() {
		h.Reset()
		p.Reset()
		if _, done, err := p.Parse(&h.m.Table, in); !done || err != nil {
			b.Fatal(err)
		}
		h.m.SetParsed(&p.Head)
		if !h.IsGet() || len(h.RequestURI()) == 0 || len(h.Host()) == 0 || h.Peek("X-Request-Id") == nil {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkRequestSetParsed(b *testing.B) {
	var h RequestHeader
	p := h1.HeadParser{Role: h1.Requests, Limits: h1.DefaultLimits}
	if _, done, err := p.Parse(&h.m.Table, []byte(benchHead)); !done || err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.m.SetParsed(&p.Head)
		if !h.IsGet() || len(h.Host()) == 0 {
			b.Fatal("wrong")
		}
	}
}

// TestAppendWholeRefuses: a request that cannot be written is not written.
func TestAppendWholeRefuses(t *testing.T) {
	var r Request
	r.SetRequestURI("http://u%0A:p@h/")
	if out, err := r.appendWhole(nil); err != uri.ErrUserinfoControl || len(out) > 0 {
		t.Errorf("%q, %v", out, err)
	}
}

func TestTrailerIsASectionOfItsOwn(t *testing.T) {
	var h ResponseHeader
	h.Set("before", "1")
	if err := h.AddTrailer("before, After"); err != nil {
		t.Fatal(err)
	}
	h.Set("after", "2")
	h.Add("After", "3")
	h.Set("other", "4")
	if got, want := undated(&h), "HTTP/1.1 200 OK\r\nOther: 4\r\nTrailer: Before, After\r\n\r\n"; got != want {
		t.Errorf("head %q, want %q", got, want)
	}
	if got, want := string(h.TrailerHeader()), "Before: 1\r\nAfter: 2\r\nAfter: 3\r\n\r\n"; got != want {
		t.Errorf("trailer %q, want %q", got, want)
	}
	if got := fmt.Sprintf("%q %q %q", h.Peek("after"), h.PeekAll("After"), h.Peek("trailer")); got != `"2" ["2" "3"] "Before, After"` {
		t.Errorf("peeks: %s", got)
	}
	if got, want := fieldsOf(h.All()), "Content-Type=text/plain; charset=utf-8 Trailer=Before, After Other=4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.Set("after", "9")
	h.Del("before")
	if got, want := string(h.TrailerHeader()), "After: 9\r\nAfter: 3\r\n\r\n"; got != want {
		t.Errorf("trailer %q, want %q", got, want)
	}
	h.SetTrailer("")
	if h.Peek("Trailer") != nil {
		t.Error("SetTrailer did not take the announcements back")
	}
	h.Reset()
	if h.m.HasTrailers() || string(h.TrailerHeader()) != "\r\n" {
		t.Error("Reset left trailers")
	}
}

func TestReadTrailer(t *testing.T) {
	h := readRequest(t, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: Sum, Content-Length, , Sum\r\n\r\n")
	r := reader("sum: 1\r\nHost: evil\r\nExtra: 2\r\nContent-Length: 9\r\n\r\nnext")
	if err := h.ReadTrailer(r); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "next" {
		t.Errorf("left %q", rest)
	}
	if got, want := fieldsOf(h.All()), "Host=h Trailer=Sum, Extra Transfer-Encoding=chunked"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%s", h.PeekTrailerKeys()); got != "[Sum Extra]" {
		t.Errorf("keys %s", got)
	}
	var keys []string
	h.VisitAllTrailer(func(key []byte) { keys = append(keys, string(key)) })
	if fmt.Sprint(keys) != "[Sum Extra]" {
		t.Errorf("visited %v", keys)
	}
	if string(h.Host()) != "h" || h.ContentLength() != -1 {
		t.Error("a trailer changed the head")
	}
	if got, want := string(h.m.AppendTrailers(nil)), "Sum: 1\r\nExtra: 2\r\n\r\n"; got != want || !h.m.HasTrailers() {
		t.Errorf("trailer %q, want %q", got, want)
	}
}

func TestReadTrailerErrors(t *testing.T) {
	for in, want := range map[string]error{
		"": io.EOF, "a: b\r\n": io.ErrUnexpectedEOF, "a b: c\r\n\r\n": ErrBadTrailer, "nocolon\r\n\r\n": ErrBadTrailer, "a: \x00\r\n\r\n": ErrBadTrailer,
	} {
		var h ResponseHeader
		if err := h.ReadTrailer(reader(in)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
		if h.m.HasTrailers() {
			t.Errorf("%q left trailers", in)
		}
	}
	for _, in := range []string{"a: b\rc\r\n\r\n", "a: \x00\r\n\r\n", "a: b\x7f\r\n\r\n"} {
		var h RequestHeader
		if err := h.ReadTrailer(reader(in)); err == nil || !strings.Contains(err.Error(), "invalid trailer value") {
			t.Errorf("%q: %v does not say what is wrong", in, err)
		}
	}
	var h ResponseHeader
	if err := h.ReadTrailer(reader("\r\n")); err != nil || h.m.HasTrailers() {
		t.Errorf("no trailers: %v", err)
	}
}

func TestTrailerKeepNames(t *testing.T) {
	var h RequestHeader
	h.DisableNormalizing()
	h.AddTrailer("x-sum")
	h.Set("x-sum", "1")
	h.Set("X-Sum", "2")
	if got, want := h.String()+string(h.TrailerHeader()), "GET / HTTP/1.1\r\nX-Sum: 2\r\nTrailer: x-sum\r\n\r\nx-sum: 1\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var table field.Table
	table.KeepNames = true
	table.Add(field.Other, []byte("y-z"), []byte("3"))
	h.m.ReceiveTrailers(&table)
	if got := string(h.Peek("y-z")); got != "3" {
		t.Errorf("Peek = %q", got)
	}
}

// trailerMethods is what both types of headers have for trailer fields.
type trailerMethods interface {
	Set(key, value string)
	Add(key, value string)
	Del(key string)
	SetTrailer(trailer string) error
	SetTrailerBytes(trailer []byte) error
	AddTrailer(trailer string) error
	Peek(key string) []byte
	PeekAll(key string) [][]byte
	PeekKeys() [][]byte
	Len() int
	All() iter.Seq2[[]byte, []byte]
	VisitAll(f func(key, value []byte))
	TrailerHeader() []byte
	ReadTrailer(r *bufio.Reader) error
}

// TestAnnouncedNamesTakeEverySetter: nothing that is set goes into the head.
func TestAnnouncedNamesTakeEverySetter(t *testing.T) {
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		set  func(q *RequestHeader)
		want string
	}{
		{func(*RequestHeader) {}, ""},
		{func(q *RequestHeader) { q.Set("x-a", "1"); q.SetBytesKV([]byte("X-A"), []byte("2")) }, "X-A: 2\r\n"},
		{func(q *RequestHeader) { q.Add("x-a", "1"); q.AddBytesK([]byte("X-A"), "2") }, "X-A: 1\r\nX-A: 2\r\n"},
		{func(q *RequestHeader) { q.SetCanonical([]byte("X-A"), []byte("1")) }, "X-A: 1\r\n"},
		{func(q *RequestHeader) { q.Set("X-A", "") }, "X-A: \r\n"},
		{func(q *RequestHeader) { q.SetUserAgent("1"); q.SetUserAgentBytes([]byte("2")) }, "User-Agent: 2\r\n"},
		{func(q *RequestHeader) { q.Set("user-agent", "1") }, "User-Agent: 1\r\n"},
		{func(q *RequestHeader) { q.Add("User-Agent", "1"); q.Add("User-Agent", "2") }, "User-Agent: 1\r\nUser-Agent: 2\r\n"},
		{func(q *RequestHeader) { q.Add("User-Agent", "1"); q.Add("User-Agent", "2"); q.Set("User-Agent", "3") }, "User-Agent: 3\r\n"},
		{func(q *RequestHeader) { q.Add("User-Agent", "1"); q.Add("User-Agent", "2"); q.SetUserAgent("3") }, "User-Agent: 3\r\n"},
		{func(q *RequestHeader) { q.SetReferer("1"); q.SetRefererBytes([]byte("2")) }, "Referer: 2\r\n"},
	} {
		var q RequestHeader
		q.AddTrailer("X-A, User-Agent, Referer")
		head := q.String()
		test.set(&q)
		if got := q.String(); got != head {
			t.Errorf("%q: the head became %q", test.want, got)
		}
		if got := string(q.TrailerHeader()); got != test.want+"\r\n" {
			t.Errorf("the trailer section is %q, want %q", got, test.want)
		}
	}
	for _, test := range []struct {
		set  func(r *ResponseHeader)
		want string
	}{
		{func(r *ResponseHeader) { r.SetServer("1"); r.SetServerBytes([]byte("2")) }, "Server: 2\r\n"},
		{func(r *ResponseHeader) { r.SetServer("") }, "Server: \r\n"},
		{func(r *ResponseHeader) { r.Add("server", "1"); r.Add("Server", "2") }, "Server: 1\r\nServer: 2\r\n"},
		{func(r *ResponseHeader) { r.Set("Date", "d") }, "Date: d\r\n"},
		{func(r *ResponseHeader) { r.SetLastModified(day) }, "Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n"},
	} {
		var r ResponseHeader
		r.m.DefaultServer, r.m.ShowsServer = []byte("sluice"), true
		r.AddTrailer("Server, Date, Last-Modified")
		head := undated(&r)
		test.set(&r)
		if got := undated(&r); got != head || !strings.Contains(head, "Server: sluice\r\n") {
			t.Errorf("%q: the head became %q", test.want, got)
		}
		if got := string(r.TrailerHeader()); got != test.want+"\r\n" {
			t.Errorf("the trailer section is %q, want %q", got, test.want)
		}
	}
}

// TestGettersFallBackToTheTrailerSection: a field of the head counts, also an
// empty one.
func TestGettersFallBackToTheTrailerSection(t *testing.T) {
	trailerOf := func(h trailerMethods, name string) {
		_ = h.AddTrailer(name)
		h.Add(name, "t1")
		h.Add(name, "t2")
	}
	for _, test := range []struct {
		head []string // values of the head
		want string
	}{
		{nil, `"t1" "t1" ["t1" "t2"]`},
		{[]string{"h"}, `"h" "h" ["h" "t1" "t2"]`},
		{[]string{""}, `"" "" ["t1" "t2"]`},
	} {
		for _, id := range []field.ID{field.UserAgent, field.Referer} {
			var q RequestHeader
			name := string(id.Canonical())
			trailerOf(&q, name)
			for _, value := range test.head {
				q.m.Table.Set(id, []byte(value)) // as one that was received
			}
			get := q.UserAgent
			want := test.want
			if id == field.Referer { // a field as others, of which all values count
				get = q.Referer
				want = strings.Replace(want, `"" "" [`, `"" "" ["" `, 1)
			}
			if got := fmt.Sprintf("%q %q %q", get(), q.Peek(name), q.PeekAll(name)); got != want {
				t.Errorf("%s, head %q: %s, want %s", name, test.head, got, want)
			}
		}
		for _, name := range []string{"Server", "Date"} {
			var r ResponseHeader
			trailerOf(&r, name)
			for _, value := range test.head {
				r.m.Table.Set(field.Lookup([]byte(name)), []byte(value))
			}
			value := r.Peek(name)
			if name == "Server" {
				value = r.Server()
			}
			if got := fmt.Sprintf("%q %q %q", value, r.Peek(name), r.PeekAll(name)); got != test.want {
				t.Errorf("%s, head %q: %s, want %s", name, test.head, got, test.want)
			}
		}
	}
	var r ResponseHeader
	r.m.DefaultServer, r.m.ShowsServer = []byte("sluice"), true
	trailerOf(&r, "Server")
	if got := fmt.Sprintf("%s %s %s", r.Server(), r.Peek("Server"), r.PeekAll("Server")); got != "sluice sluice [sluice t1 t2]" {
		t.Errorf("with a default: %s", got)
	}
}

// TestTrailersAllocateNothing in a header that had some before, as those of a
// pool do.
func TestTrailersAllocateNothing(t *testing.T) {
	var h ResponseHeader
	var table field.Table
	dst := make([]byte, 0, 512)
	name, value := []byte("X-Sent"), []byte("1")
	for what, work := range map[string]func(){
		"none": func() { h.Set("X-A", "1"); h.SetServer("s") },
		"assigned": func() {
			h.SetTrailer("X-A, X-B")
			h.Set("X-A", "1")
			h.Add("Trailer", "X-C")
			h.Add("X-C", "2")
			dst = h.m.AppendTrailers(append(dst[:0], h1.LastChunk...))
		},
		"received": func() {
			table.Reset()
			table.Add(field.Other, name, value)
			h.m.ReceiveTrailers(&table)
			dst = h.m.AppendTrailers(append(dst[:0], h1.LastChunk...))
		},
	} {
		n := testing.AllocsPerRun(100, func() {
			h.Reset()
			work()
			dst = h.m.AppendHead(dst[:0], message.Framing{Length: -1})
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}
