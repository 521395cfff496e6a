package message_test

import (
	"bufio"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// fieldsOf lists fields as "Name=value" words.
func fieldsOf(all iter.Seq2[[]byte, []byte]) string {
	var words []string
	for key, value := range all {
		words = append(words, fmt.Sprintf("%s=%s", key, value))
	}
	return strings.Join(words, " ")
}

// checkWire fails if head is not what one head looks like: a line for each
// field, each with a token for a name and without control characters.
func checkWire(t *testing.T, head string, isRequest bool) {
	t.Helper()
	lines := strings.Split(head, "\r\n")
	if n := len(lines); n < 3 || lines[n-1] != "" || lines[n-2] != "" {
		t.Fatalf("head does not end in one empty line: %q", head)
	}
	for i, line := range lines[:len(lines)-2] {
		if !ascii.AllString(line, ascii.Value) {
			t.Fatalf("control characters in %q", head)
		}
		name, _, found := strings.Cut(line, ":")
		switch {
		case i > 0 && (!found || !h1.IsToken([]byte(name))):
			t.Fatalf("%q is no field, in %q", line, head)
		case i == 0 && isRequest && strings.Count(line, " ") != 2:
			t.Fatalf("malformed request line %q", line)
		}
	}
}

func TestHeaderContentLengthIsState(t *testing.T) {
	var h sluice.RequestHeader
	h.Set("content-length", "007")
	if h.ContentLength() != 7 || string(h.Peek("Content-Length")) != "7" {
		t.Errorf("length %d, %q", h.ContentLength(), h.Peek("Content-Length"))
	}
	for _, bad := range []string{"", "-1", "+1", "x", "5, 5", "99999999999999999999"} {
		h.Set("Content-Length", bad)
		if h.ContentLength() != 7 {
			t.Errorf("%q set the length to %d", bad, h.ContentLength())
		}
		if h.Add("Content-Length", bad); strings.Count(h.String(), "Content-Length: ") != 1 || !strings.Contains(h.String(), "Content-Length: 7\r\n") {
			t.Errorf("%q is written: %q", bad, h.String())
		}
	}
	h.SetContentLength(-1)
	if h.Peek("Content-Length") != nil || string(h.Peek("Transfer-Encoding")) != "chunked" {
		t.Error("a chunked request has a length")
	}
	h.Set("Content-Length", "3")
	if h.Peek("Transfer-Encoding") != nil {
		t.Error("a length and a coding at once")
	}
	h.Del("Content-Length")
	if h.ContentLength() != 0 || h.Peek("Content-Length") != nil {
		t.Error("the length was not deleted")
	}
	h.Set("Transfer-Encoding", "chunked")
	if h.ContentLength() != 0 {
		t.Error("Transfer-Encoding changed the framing")
	}
}

func TestHeaderNormalizing(t *testing.T) {
	var h sluice.ResponseHeader
	h.Set("x-one", "1")
	if h.DisableNormalizing() || !h.DisableNormalizing() {
		t.Error("the previous setting is wrong")
	}
	h.Set("x-two", "2")
	h.Set("SERVER", "s")
	if got, want := fieldsOf(h.All()), "Content-Type=text/plain; charset=utf-8 Server=s X-One=1 x-two=2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if string(h.Peek("server")) != "s" || string(h.Peek("Server")) != "s" {
		t.Error("a field with a meaning of its own is not found by any spelling")
	}
	if h.Peek("X-Two") != nil || string(h.Peek("x-two")) != "2" || string(h.Peek("X-One")) != "1" {
		t.Error("names are not compared as they are")
	}
	if !h.EnableNormalizing() || h.EnableNormalizing() {
		t.Error("the previous setting is wrong")
	}
	h.Reset()
	h.Set("x-a", "1")
	if string(h.Peek("X-A")) != "1" {
		t.Error("Reset did not enable normalisation")
	}
}

// TestConnectionFields: what a Connection field lists beside close can be read,
// and stays when close is taken back.
func TestConnectionFields(t *testing.T) {
	for _, c := range []struct {
		values       []string
		closes       bool // SetConnectionClose is called
		peek         string
		all, reopens []string
	}{
		{nil, true, "close", []string{"close"}, nil},
		{[]string{"close"}, false, "close", []string{"close"}, nil},
		{[]string{"a, b"}, true, "a, b", []string{"a, b", "close"}, []string{"a, b"}},
		{[]string{"a", "b"}, false, "a", []string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", "b"}, true, "a", []string{"a", "b", "close"}, []string{"a", "b"}},
		{[]string{"a, Close,b"}, false, "a, Close,b", []string{"a, Close,b"}, []string{"a, b"}},
		{[]string{"close, a"}, true, "close, a", []string{"close, a"}, []string{"a"}},
		{[]string{"keep-alive"}, true, "close", []string{"close"}, []string{"keep-alive"}}, // H8
		{[]string{""}, true, "close", []string{"", "close"}, nil},
		{[]string{"keep-alive, a"}, false, "keep-alive, a", []string{"keep-alive, a"}, []string{"keep-alive, a"}},
	} {
		var q sluice.RequestHeader
		var r sluice.ResponseHeader
		head := "Host: h\r\n"
		for _, value := range c.values {
			head += "Connection: " + value + "\r\n"
		}
		for h, read := range map[interface {
			SetConnectionClose()
			ResetConnectionClose()
			Peek(key string) []byte
			PeekAll(key string) [][]byte
		}]func() error{
			&q: func() error { return q.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n" + head + "\r\n"))) },
			&r: func() error {
				return r.Read(bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + head + "\r\n")))
			},
		} {
			if err := read(); err != nil {
				t.Fatal(err)
			}
			if c.closes {
				h.SetConnectionClose()
			}
			if got, all := string(h.Peek("Connection")), fmt.Sprintf("%q", h.PeekAll("connection")); got != c.peek || all != fmt.Sprintf("%q", c.all) {
				t.Errorf("%q, %v: %q of %s, want %q of %q", c.values, c.closes, got, all, c.peek, c.all)
			}
			h.ResetConnectionClose()
			if all := fmt.Sprintf("%q", h.PeekAll("Connection")); all != fmt.Sprintf("%q", c.reopens) {
				t.Errorf("%q, %v: %s stays, want %q", c.values, c.closes, all, c.reopens)
			}
		}
	}
}
