package sluice

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/field"
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
	if got, want := fieldsOf(h.All()), "Content-Type=text/plain; charset=utf-8 Trailer=Before, After Other=4 Before=1 After=2 After=3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.Set("after", "9")
	h.Del("before")
	if got, want := string(h.TrailerHeader()), "Before: \r\nAfter: 9\r\nAfter: 3\r\n\r\n"; got != want {
		t.Errorf("trailer %q, want %q", got, want)
	}
	h.SetTrailer("")
	if h.Peek("Trailer") != nil {
		t.Error("SetTrailer did not take the announcements back")
	}
	h.Reset()
	if h.hasTrailers() || string(h.TrailerHeader()) != "\r\n" {
		t.Error("Reset left trailers")
	}
}

func TestBadTrailers(t *testing.T) {
	for _, list := range []string{"Content-Length", "transfer-encoding", "Host", "Authorization", "Cookie", "Set-Cookie", "Trailer",
		"TE", "Content-Type", "Connection", "a b", "a\r\nb", ",", "ok,", "x, host"} {
		var h RequestHeader
		if err := h.AddTrailer(list); !errors.Is(err, ErrBadTrailer) {
			t.Errorf("%q: %v", list, err)
		}
	}
	var h RequestHeader
	_ = h.AddTrailerBytes([]byte("a, host, b, A"))
	if got := string(h.Peek("Trailer")); got != "A, B" {
		t.Errorf("announced %q", got)
	}
	_ = h.SetTrailerBytes([]byte("c"))
	h.Set("Trailer", "d, content-length")
	if got := string(h.Peek("Trailer")); got != "D" {
		t.Errorf("announced %q", got)
	}
}

func TestTrailerOfReceivedHead(t *testing.T) {
	h := readRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nX: head\r\nTrailer: X\r\n\r\n")
	if got, want := h.String()+string(h.TrailerHeader()), "GET / HTTP/1.1\r\nHost: h\r\nX: head\r\nTrailer: X\r\n\r\nX: \r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	h.Set("x", "new")
	if got, want := h.String()+string(h.TrailerHeader()), "GET / HTTP/1.1\r\nHost: h\r\nTrailer: X\r\n\r\nX: new\r\n\r\n"; got != want || string(h.Peek("X")) != "new" {
		t.Errorf("got %q, want %q", got, want)
	}
	names := make([]string, 2*maxAnnounced)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	h = readRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nTrailer: "+strings.Join(names, ",")+"\r\n\r\n")
	if got := len(h.PeekTrailerKeys()); got != maxAnnounced {
		t.Errorf("%d names announced", got)
	}
	if err := h.AddTrailer("one-more"); !errors.Is(err, ErrBadTrailer) {
		t.Errorf("one more: %v", err)
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
	if got, want := fieldsOf(h.All()), "Host=h Trailer=Sum Transfer-Encoding=chunked Sum=1 Extra=2"; got != want {
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
	if got, want := string(h.appendTrailers(nil)), "Sum: 1\r\nExtra: 2\r\n\r\n"; got != want || !h.hasTrailers() {
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
		if h.hasTrailers() {
			t.Errorf("%q left trailers", in)
		}
	}
	var h ResponseHeader
	if err := h.ReadTrailer(reader("\r\n")); err != nil || h.hasTrailers() {
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
	h.setParsedTrailers(&table)
	if got := string(h.Peek("y-z")); got != "3" {
		t.Errorf("Peek = %q", got)
	}
}
