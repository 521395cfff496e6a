package sluice

import (
	"bufio"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/message"
)

// fieldsOf lists fields as "Name=value" words.
func fieldsOf(all iter.Seq2[[]byte, []byte]) string {
	var words []string
	for key, value := range all {
		words = append(words, fmt.Sprintf("%s=%s", key, value))
	}
	return strings.Join(words, " ")
}

func reader(s string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), 1<<16) }

func readRequest(t testing.TB, s string) *RequestHeader {
	t.Helper()
	h := new(RequestHeader)
	if err := h.Read(reader(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}

func readResponse(t testing.TB, s string) *ResponseHeader {
	t.Helper()
	h := new(ResponseHeader)
	if err := h.Read(reader(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}

// undated is the head of h without the date.
func undated(h *ResponseHeader) string {
	f := h.m.Framing()
	f.Date = 0
	return string(h.m.AppendHead(nil, f))
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

func TestHeaderZeroValues(t *testing.T) {
	var q RequestHeader
	if got := q.String(); got != "GET / HTTP/1.1\r\n\r\n" {
		t.Errorf("request: %q", got)
	}
	var r ResponseHeader
	if got := undated(&r); got != "HTTP/1.1 200 OK\r\n\r\n" {
		t.Errorf("response: %q", got)
	}
	if !strings.Contains(r.String(), "\r\nDate: ") {
		t.Errorf("response without a Date: %q", r.String())
	}
	if q.Len() != 0 || r.Len() != 1 || q.ContentLength() != 0 || r.ContentLength() != 0 {
		t.Error("zero headers are not empty")
	}
}

func TestHeaderContentLengthIsState(t *testing.T) {
	var h RequestHeader
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

func TestHeaderConnection(t *testing.T) {
	for _, c := range []struct {
		value   string
		close   bool
		upgrade bool
	}{
		{"close", true, false}, {"CLOSE", true, false}, {"keep-alive, close", true, false},
		{"keep-alive", false, false}, {"Upgrade", false, true}, {"upgrade,close", true, false}, {"closed", false, false},
	} {
		var h ResponseHeader
		h.Set("connection", c.value)
		if h.ConnectionClose() != c.close || h.ConnectionUpgrade() != c.upgrade || string(h.Peek("Connection")) != c.value {
			t.Errorf("%q: close %v, upgrade %v, Peek %q", c.value, h.ConnectionClose(), h.ConnectionUpgrade(), h.Peek("Connection"))
		}
		if got := strings.Count(undated(&h), "Connection: "+c.value+"\r\n"); got != 1 {
			t.Errorf("%q is written %d times: %q", c.value, got, undated(&h))
		}
	}
	var h ResponseHeader
	h.Set("Connection", "keep-alive")
	h.SetConnectionClose()
	if got := undated(&h); got != "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" {
		t.Errorf("got %q", got)
	}
	h.ResetConnectionClose()
	if h.ConnectionClose() || string(h.Peek("Connection")) != "keep-alive" {
		t.Errorf("ResetConnectionClose left %q", h.Peek("Connection"))
	}
}

// TestConnectionMembersOutliveClose: a connection that is to be closed is not
// upgraded, and what else Connection fields list is written.
func TestConnectionMembersOutliveClose(t *testing.T) {
	for _, c := range []struct{ version, in, want string }{
		{"1.0", "Connection: upgrade, x\r\n", "Connection=upgrade, x Connection=close"},
		{"1.1", "Connection: upgrade\r\nConnection: close, x\r\nConnection: keep-alive\r\n", "Connection=upgrade Connection=close, x"},
		{"1.1", "Connection: close, upgrade\r\n", "Connection=close, upgrade"},
		{"1.0", "", "Connection=close"},
	} {
		start := "GET / HTTP/" + c.version + "\r\nHost: h\r\n"
		h := readRequest(t, start+c.in+"\r\n")
		if got := fieldsOf(h.All()); got != "Host=h "+c.want || h.ConnectionUpgrade() {
			t.Errorf("%q: %s, upgrade %v, want %s", c.in, got, h.ConnectionUpgrade(), c.want)
		}
		lines := strings.NewReplacer(" Connection=", "\r\nConnection: ", "=", ": ").Replace(c.want)
		if got, want := h.String(), start+lines+"\r\n\r\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var h ResponseHeader
	h.Set("Connection", "x")
	if got, want := string(h.m.AppendHead(nil, message.Framing{Length: 0, CloseConnection: true})), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x\r\nConnection: close\r\n\r\n"; got != want {
		t.Errorf("closed by the writer: %q, want %q", got, want)
	}
}

func TestHeaderNormalizing(t *testing.T) {
	var h ResponseHeader
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

func TestHeaderProtocol(t *testing.T) {
	for _, c := range []struct {
		set, want, wire string
		is11            bool
	}{
		{"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", true}, {"HTTP/1.0", "HTTP/1.0", "HTTP/1.0", false},
		{"HTTP/2.0", "HTTP/2.0", "HTTP/1.1", true}, {"a\r\nb", "a  b", "HTTP/1.1", false}, {"", "HTTP/1.1", "HTTP/1.1", true},
	} {
		var q RequestHeader
		var r ResponseHeader
		q.SetProtocol(c.set)
		r.SetProtocol([]byte(c.set))
		if string(q.Protocol()) != c.want || q.IsHTTP11() != c.is11 || r.IsHTTP11() != c.is11 {
			t.Errorf("%q: %q, IsHTTP11 %v", c.set, q.Protocol(), q.IsHTTP11())
		}
		if q.String() != "GET / "+c.wire+"\r\n\r\n" || undated(&r) != c.wire+" 200 OK\r\n\r\n" {
			t.Errorf("%q: %q, %q", c.set, q.String(), undated(&r))
		}
	}
}

func TestHeaderCopyTo(t *testing.T) {
	q := readRequest(t, "PUT /a HTTP/1.0\r\nHost: h\r\nX-A: 1\r\nContent-Length: 5\r\nTrailer: T\r\n\r\n")
	q.Set("t", "v")
	q.SetCookie("a", "b")
	var q2 RequestHeader
	q2.Set("old", "x")
	q2.AddTrailer("Old-Trailer")
	q.CopyTo(&q2)
	if q.String() != q2.String() || string(q2.TrailerHeader()) != "T: v\r\n\r\n" || string(q2.RawHeaders()) != string(q.RawHeaders()) {
		t.Errorf("copy is %q, want %q", q2.String(), q.String())
	}
	q.Reset()
	if q.String() != "GET / HTTP/1.1\r\n\r\n" || q.RawHeaders() != nil || !strings.HasPrefix(q2.String(), "PUT /a HTTP/1.0\r\n") {
		t.Error("copies share memory, or Reset left something")
	}
	new(RequestHeader).CopyTo(&q2)
	if q2.String() != "GET / HTTP/1.1\r\n\r\n" || string(q2.TrailerHeader()) != "\r\n" {
		t.Errorf("copy of the zero value: %q", q2.String())
	}
	r := readResponse(t, "HTTP/1.1 404 Gone Fishing\r\nX: y\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\n")
	var r2 ResponseHeader
	r2.m.DefaultServer = []byte("own")
	r.CopyTo(&r2)
	if got, want := undated(&r2), "HTTP/1.1 404 Gone Fishing\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nX: y\r\nSet-Cookie: a=b\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := string(r2.m.AppendHead(nil, message.Framing{NamesServer: true})); !strings.Contains(got, "\r\nServer: own\r\n") {
		t.Errorf("%q", got)
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
		var q RequestHeader
		var r ResponseHeader
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
