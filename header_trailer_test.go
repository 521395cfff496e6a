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

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

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
