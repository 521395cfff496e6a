package message

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// TestPut: a name that is not a token is ignored, a value stays on its line, and fields that are
// treated specially do not conflict (RFC 9110 sections 5.1 and 5.5).
func TestPut(t *testing.T) {
	type put struct {
		name, value string
		mode        PutMode
	}
	for _, test := range []struct {
		want string
		puts []put
	}{
		{"X: 1\r\n", []put{{"x", "1", Sets}}},
		{"X: 2\r\n", []put{{"X", "1", Sets}, {"x", "2", Sets}}},
		{"X: 1\r\nX: 2\r\n", []put{{"X", "1", Sets}, {"x", "2", Adds}}},
		{"X: 3\r\nX: 2\r\n", []put{{"X", "1", Sets}, {"X", "2", Adds}, {"X", "3", Sets}}},
		{"", []put{{"", "1", Sets}, {"X Y", "1", Sets}, {"X:", "1", Adds}, {"X\r\n", "1", Adds}}},
		{"X: a  b c\r\n", []put{{"X", "a\r\nb\x00c", Sets}}},
		{"Host: 2\r\n", []put{{"Host", "1", Sets}, {"host", "2", Adds}}},
		{"User-Agent: 2\r\n", []put{{"User-Agent", "1", Sets}, {"User-Agent", "2", Adds}}},
		{"Content-Encoding: br, gzip\r\n", []put{{"Content-Encoding", "br", Sets}, {"Content-Encoding", "gzip", Adds}}},
		{"Content-Encoding: gzip\r\n", []put{{"Content-Encoding", "br", Sets}, {"Content-Encoding", "gzip", Sets}}},
		{"Date: 1\r\n", []put{{"Date", "1", Sets}, {"Date", "2", Adds | DropsDate}}},
		{"", []put{{"Content-Length", "x", Sets}, {"Content-Length", "-1", Sets}, {"Content-Length", "99999999999999999999", Sets}}},
		{"Content-Length: 6\r\n", []put{{"Content-Length", "5", Sets}, {"Content-Length", " 6 ", Adds}, {"Content-Length", "", Sets}}},
		{"", []put{{"Transfer-Encoding", "chunked", Sets}}},
		{"Connection: upgrade\r\n", []put{{"Connection", "x", Sets}, {"Connection", "upgrade", Sets}}},
		{"Connection: x, upgrade\r\n", []put{{"Connection", "x", Sets}, {"Connection", "upgrade", Adds}, {"Connection", "X", Adds}}},
		{"Connection: x, close\r\n", []put{{"Connection", "x", Sets}, {"Connection", "close", Adds}}},
		{"Connection: x\r\n", []put{{"Connection", "close", Sets}, {"Connection", "x", Sets}}},
		{"Connection: close\r\n", []put{{"Connection", "\x00close", Sets}}},
		{"Set-Cookie: a=1\r\nSet-Cookie: a=2\r\n", []put{{"Set-Cookie", "a=1", Sets}, {"Set-Cookie", "a=2", Sets}}},
		{"Trailer: A, B\r\n", []put{{"Trailer", "A", Sets}, {"Trailer", "b, Host, a", Adds}}},
		{"Trailer: B\r\n", []put{{"Trailer", "A", Sets}, {"Trailer", "b", Sets}}},
	} {
		var h RequestHeader
		for _, p := range test.puts {
			value := []byte(p.value)
			h.Put(p.name, value, p.mode)
			if string(value) != p.value {
				t.Errorf("%+v: the value is changed to %q", p, value)
			}
			clear(value)
		}
		h.NoDefaultContentType = true
		_, got, _ := strings.Cut(string(h.Head()), "\r\n")
		if got != test.want+"\r\n" {
			t.Errorf("%q: %q, want %q", test.puts, got, test.want)
		}
	}
}

// TestPutRaw: fields keep their order and spelling, and the framing has the place where it was set.
func TestPutRaw(t *testing.T) {
	for _, test := range []struct {
		fields, want string
		f            Framing
	}{
		{"b: 1|Host: h|content-length: 9|A: 2", "b: 1\r\nHost: h\r\ncontent-length: 3\r\nA: 2\r\n", Framing{Length: 3}},
		{"content-length: 9|Content-Length: 8", "content-length: 3\r\n", Framing{Length: 3}},
		{"content-length: 9|a: 1", "a: 1\r\nTransfer-Encoding: chunked\r\n", Framing{Length: -1}},
		{"transfer-encoding: gzip|a: 1|Transfer-Encoding: chunked", "transfer-encoding: chunked\r\na: 1\r\n", Framing{Length: -1}},
		{"transfer-encoding: chunked|a: 1", "a: 1\r\nContent-Length: 3\r\n", Framing{Length: 3}},
		{"a: 1", "a: 1\r\n", Framing{Length: 0}},
		{"a: 1", "a: 1\r\n", Framing{Length: -2}},
		{"Host: 1|host: 2|Content-Encoding: br|Content-Encoding: gzip", "Host: 1\r\nhost: 2\r\nContent-Encoding: br\r\nContent-Encoding: gzip\r\n", Framing{}},
		{"Connection: x|a: 1", "Connection: x\r\na: 1\r\nConnection: close\r\n", Framing{CloseConnection: true}},
		{"connection: x, close|a: 1", "connection: x, close\r\na: 1\r\n", Framing{CloseConnection: true}},
		{"Cookie: b=1|a: 1", "Cookie: b=1\r\na: 1\r\n", Framing{}},
		{"a: x\x01y", "a: x y\r\n", Framing{}},
	} {
		var h RequestHeader
		if h.SetKeepNames(true) || h.SetRaw(true) {
			t.Error("a setting was on")
		}
		for _, f := range strings.Split(test.fields, "|") {
			name, value, _ := strings.Cut(f, ": ")
			h.Put(name, []byte(value), Adds)
		}
		_, got, _ := strings.Cut(string(h.AppendHead(nil, test.f)), "\r\n")
		if got != test.want+"\r\n" {
			t.Errorf("%q, %+v: %q, want %q", test.fields, test.f, got, test.want)
		}
		if !h.SetKeepNames(false) || !h.SetRaw(false) {
			t.Error("a setting is off")
		}
	}
	var h RequestHeader
	h.SetRaw(true)
	h.Put("Trailer", []byte("T, Host"), Sets)
	if got := string(h.AppendHead(nil, Framing{})); got != "GET / HTTP/1.1\r\nTrailer: T\r\n\r\n" {
		t.Errorf("an announcement: %q", got)
	}
	h.IsHTTP10 = true
	if got := string(h.AppendHead(nil, Framing{CloseConnection: true})); got != "GET / HTTP/1.0\r\nTrailer: T\r\n\r\n" {
		t.Errorf("HTTP/1.0 implies close: %q", got)
	}
}

// TestTransferEncodingOfRaw: Peek returns what was set until another length is.
func TestTransferEncodingOfRaw(t *testing.T) {
	var h RequestHeader
	h.SetRaw(true)
	key := []byte("Transfer-Encoding")
	h.Put("Transfer-Encoding", []byte("gzip"), Sets)
	if got := string(h.Peek(key)); got != "gzip" || h.ContentLength == -1 {
		t.Errorf("%q, length %d", got, h.ContentLength)
	}
	h.SetContentLength(5)
	if got := h.Peek(key); got != nil {
		t.Errorf("with a length: %q", got)
	}
	h.Put("Transfer-Encoding", []byte(" Chunked"), Sets)
	if got := string(h.Peek(key)); got != "chunked" || h.ContentLength != -1 {
		t.Errorf("%q, length %d", got, h.ContentLength)
	}
	h.ContentLength = 0
	if h.Del(key); h.Peek(key) != nil {
		t.Errorf("deleted: %q", h.Peek(key))
	}
}

// TestPutCanonical: the name is not changed, and is compared byte for byte.
func TestPutCanonical(t *testing.T) {
	var h RequestHeader
	put := func(name, value string, mode PutMode) { h.PutCanonical([]byte(name), []byte(value), mode) }
	put("x-a", "1", Sets)
	put("X-A", "2", Sets)
	put("x-a", "3\r\n", Sets)
	put("x a", "4", Sets)
	put("host", "h", Sets)
	put("content-length", "5", Sets)
	put("content-encoding", "br", Sets)
	put("content-encoding", "gzip", Adds)
	put("date", "now", Sets|DropsDate)
	if got, want := string(h.AppendHead(nil, h.Framing())), "GET / HTTP/1.1\r\nHost: h\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\nx-a: 3  \r\nX-A: 2\r\nContent-Encoding: br, gzip\r\n\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for key, want := range map[string]string{"x-a": "3  ", "X-A": "2", "X-a": "", "Host": "h", "host": "", "Content-Length": "5", "content-length": ""} {
		if got := string(h.PeekCanonical([]byte(key))); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	var raw RequestHeader
	raw.SetRaw(true)
	raw.PutCanonical([]byte("host"), []byte("h"), Sets)
	if got := string(raw.Host()); got != "h" {
		t.Errorf("a raw head has the host %q", got)
	}
	if h.DelAny("X-a"); h.PeekCanonical([]byte("x-a")) != nil || h.PeekCanonical([]byte("X-A")) != nil {
		t.Error("a spelling remains after DelAny")
	}
}

// TestDel: a field that is deleted is not written, and its state neither.
func TestDel(t *testing.T) {
	for _, name := range []string{"X", "Host", "Content-Type", "User-Agent", "Connection", "Content-Length", "Cookie", "Accept", "Content-Encoding", "Date", "Server"} {
		for _, delete := range map[string]func(h *RequestHeader){
			"Del":    func(h *RequestHeader) { h.Del([]byte(strings.ToUpper(name))) },
			"DelAny": func(h *RequestHeader) { h.DelAny(strings.ToLower(name)) },
		} {
			var h RequestHeader
			value := "1"
			if name == "Connection" {
				value = "close"
			}
			h.Put("Y", []byte("kept"), Sets)
			h.Put(name, []byte(value), Sets)
			if h.Peek([]byte(name)) == nil {
				t.Errorf("%s was not set", name)
			}
			delete(&h)
			if got, want := string(h.AppendHead(nil, h.Framing())), "GET / HTTP/1.1\r\nY: kept\r\n\r\n"; got != want || h.Peek([]byte(name)) != nil {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	for _, length := range []int{0, 1} {
		var h RequestHeader
		h.SetContentLength(length)
		if h.Del([]byte("Content-Length")); h.HasLength || h.ContentLength != 0 {
			t.Errorf("length %d: after Del it is %d, %v", length, h.ContentLength, h.HasLength)
		}
	}
	var h RequestHeader
	h.SetContentLength(-1)
	if h.Del([]byte("Content-Length")); h.ContentLength != -1 {
		t.Error("a chunked body has another length after Content-Length was deleted")
	}
	if h.Del([]byte("Transfer-Encoding")); h.ContentLength != -1 {
		t.Error("the framing does not follow from the body")
	}
}

// TestDelOfResponse: the server's name and the date that was set are no longer shown.
func TestDelOfResponse(t *testing.T) {
	var h ResponseHeader
	h.DefaultServer, h.ShowsServer = []byte("ours"), true
	h.SetDate([]byte("now"))
	if string(h.Server()) != "ours" || !h.OwnsDate || string(h.Get(field.Date)) != "now" {
		t.Errorf("%q, %v, %q", h.Server(), h.OwnsDate, h.Get(field.Date))
	}
	h.Del([]byte("Server"))
	h.Del([]byte("Date"))
	if h.Server() != nil || h.OwnsDate || h.Get(field.Date) != nil {
		t.Errorf("%q, %v, %q", h.Server(), h.OwnsDate, h.Get(field.Date))
	}
}
