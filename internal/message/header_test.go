package message

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// TestTrailerSectionIsLarger: each part of a section counts, also when it is empty.
func TestTrailerSectionIsLarger(t *testing.T) {
	for name, fill := range map[string]func(s *trailerSection, n int){
		"list":   func(s *trailerSection, n int) { s.list = make([]byte, 0, n) },
		"text":   func(s *trailerSection, n int) { s.text = make([]byte, 0, n) },
		"names":  func(s *trailerSection, n int) { s.names.Append(make([]byte, n)) },
		"values": func(s *trailerSection, n int) { s.values.Append(make([]byte, n)) },
	} {
		var s trailerSection
		fill(&s, 1000)
		s.names.Reset()
		s.values.Reset()
		if !s.isLarger(999) || s.isLarger(2000) {
			t.Errorf("%s of 1000 bytes: larger than 999: %v, than 2000: %v", name, s.isLarger(999), s.isLarger(2000))
		}
	}
}

func TestTrailerSectionReset(t *testing.T) {
	var s trailerSection
	s.setKeepNames(true)
	s.receive(field.Other, []byte("x"), []byte("1"))
	if s.received == 0 || len(s.list) == 0 {
		t.Fatal("nothing is there to reset")
	}
	s.reset()
	if s.names.Len()+s.values.Len()+len(s.list) != 0 || s.received != 0 || s.names.KeepNames || s.values.KeepNames {
		t.Errorf("%+v is left", s)
	}
}

func TestShrink(t *testing.T) {
	var h RequestHeader
	_ = h.Announce([]byte("T"))
	h.Put("T", bytes.Repeat([]byte("t"), 5000), Sets)
	h.Put("X", bytes.Repeat([]byte("x"), 5000), Sets)
	_ = h.Head()
	h.Reset()
	h.Shrink(1000, 10)
	if cap(h.text) > 1000 || cap(h.Table.Raw()) > 1000 || h.trailer != nil {
		t.Error("memory above the limit stays")
	}
	h.Put("X", []byte("1"), Sets)
	if got := string(h.Head()); got != "GET / HTTP/1.1\r\nX: 1\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

// TestShrinkKeepsSmallMemory: only what is above a bound is released.
func TestShrinkKeepsSmallMemory(t *testing.T) {
	for _, over := range []int{0, 1} {
		h := Header{
			text: make([]byte, 0, 10), clean: make([]byte, 0, 20), names: make([]byte, 0, 30+over),
			peeked: make([][]byte, 0, 5+over), trailer: &trailerSection{list: make([]byte, 0, 60+over)},
		}
		h.Shrink(60, 5)
		isKept := over == 0
		if (h.text != nil) != isKept || (h.clean != nil) != isKept || (h.names != nil) != isKept || (h.peeked != nil) != isKept || (h.trailer != nil) != isKept {
			t.Errorf("%d above the bounds: %+v remains", over, h)
		}
	}
}

// TestResetControls: a header that was reset does not look for the control
// characters of what it held before.
func TestResetControls(t *testing.T) {
	var h ResponseHeader
	h.Put("X", []byte("\x01"), Sets)
	if !h.hasControls {
		t.Error("a control character was not seen")
	}
	if h.Reset(); h.hasControls {
		t.Error("a header that was reset is said to have control characters")
	}
}

// TestProtocol: messages are written as HTTP/1.1 or HTTP/1.0 only.
func TestProtocol(t *testing.T) {
	for _, test := range []struct {
		protocol, want, written string
		isHTTP11                bool
	}{
		{"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", true},
		{"HTTP/1.0", "HTTP/1.0", "HTTP/1.0", false},
		{"", "HTTP/1.1", "HTTP/1.1", true},
		{"HTTP/2.0", "HTTP/2.0", "HTTP/1.1", true},
		{"HTTP/3.0", "HTTP/3.0", "HTTP/1.1", true},
		{"HTTP/3", "HTTP/3", "HTTP/1.1", false},
	} {
		var h RequestHeader
		h.SetProtocol([]byte("HTTP/1.0"))
		h.SetProtocol([]byte(test.protocol))
		if got := string(h.Protocol()); got != test.want || h.IsHTTP11() != test.isHTTP11 {
			t.Errorf("%q: %q, %v", test.protocol, got, h.IsHTTP11())
		}
		if got := string(h.AppendHead(nil, Framing{Length: -2})); got != "GET / "+test.written+"\r\n\r\n" {
			t.Errorf("%q: %q", test.protocol, got)
		}
		copy(h.Protocol(), "XXXX")
		if h.Reset(); string(h.Protocol()) != "HTTP/1.1" {
			t.Errorf("%q: after Reset %q", test.protocol, h.Protocol())
		}
	}
}

// TestResetConnectionClose: the other options stay (RFC 9110 section 7.6.1).
func TestResetConnectionClose(t *testing.T) {
	for _, test := range []struct {
		fields []string
		want   string
	}{
		{nil, ""},
		{[]string{"close"}, ""},
		{[]string{"a, CLOSE,b ,, close"}, "Connection: a, b\r\n"},
		{[]string{"a", "close", "b, close"}, "Connection: a\r\nConnection: b\r\n"},
		{[]string{"upgrade"}, "Connection: upgrade\r\n"},
	} {
		var h RequestHeader
		for _, value := range test.fields {
			h.Table.Add(field.Connection, []byte("Connection"), []byte(value))
		}
		h.ConnectionClose = h.connectionLists(h1.ConnectionClose)
		h.ResetConnectionClose()
		if got, want := string(h.AppendHead(nil, Framing{Length: -2})), "GET / HTTP/1.1\r\n"+test.want+"\r\n"; got != want || h.ConnectionClose {
			t.Errorf("%q: %q, want %q", test.fields, got, want)
		}
	}
}

// TestConnectionFields: the field that lists close is the last, and the first one that is not empty
// is what Peek returns.
func TestConnectionFields(t *testing.T) {
	for _, test := range []struct {
		fields      []string
		peeked, all string
		upgrades    bool
	}{
		{nil, "nil", "", false},
		{[]string{""}, "", "", false},
		{[]string{"", "a"}, "a", "|a", false},
		{[]string{"a", "Upgrade"}, "a", "a|Upgrade", true},
		{[]string{"upgrade, close"}, "upgrade, close", "upgrade, close", false},
		{[]string{"close", "upgrade"}, "upgrade", "upgrade|close", false},
		{[]string{"keep-alive", "close", "a"}, "a", "a|close", false},
	} {
		var h RequestHeader
		h.Put("X", []byte("1"), Sets)
		for _, value := range test.fields {
			h.Table.Add(field.Connection, []byte("Connection"), []byte(value))
		}
		h.ConnectionClose = h.connectionLists(h1.ConnectionClose)
		got := h.Peek([]byte("connection"))
		if string(got) != strings.TrimPrefix(test.peeked, "nil") || (got == nil) != (test.peeked == "nil") {
			t.Errorf("%q: %q, want %q", test.fields, got, test.peeked)
		}
		if got := string(bytes.Join(h.PeekAll([]byte("connection")), []byte("|"))); got != test.all {
			t.Errorf("%q: all are %q, want %q", test.fields, got, test.all)
		}
		if h.ConnectionUpgrade() != test.upgrades {
			t.Errorf("%q upgrades: %v", test.fields, h.ConnectionUpgrade())
		}
	}
	var h RequestHeader
	h.ConnectionClose = true
	copy(h.Peek([]byte("Connection")), "XXXXX")
	if got := string(h.AppendHead(nil, Framing{Length: -2})); got != "GET / HTTP/1.1\r\nConnection: close\r\n\r\n" {
		t.Errorf("after a write to what Peek returned: %q", got)
	}
}

// TestPeekAllOfRequest: a field that is treated specially has one value, and none if it is empty.
func TestPeekAllOfRequest(t *testing.T) {
	var h RequestHeader
	for _, f := range []string{"Host: h", "Cookie: a=1", "Cookie: b=2", "X: 1", "X: ", "User-Agent: ", "Content-Length: 7"} {
		name, value, _ := strings.Cut(f, ": ")
		h.Put(name, []byte(value), Adds)
	}
	for key, want := range map[string][]string{
		"host": {"h"}, "cookie": {"a=1; b=2"}, "x": {"1", ""}, "user-agent": {}, "content-length": {"7"}, "transfer-encoding": {}, "trailer": {}, "y": {},
	} {
		got := h.PeekAll([]byte(key))
		if len(got) != len(want) || string(bytes.Join(got, []byte("|"))) != strings.Join(want, "|") {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestContentEncodingOfRaw: several fields are one list (RFC 9110 section 5.3).
func TestContentEncodingOfRaw(t *testing.T) {
	var h RequestHeader
	if got := h.ContentEncoding(); got != nil {
		t.Errorf("none: %q", got)
	}
	h.SetRaw(true)
	for i, want := range []string{"br", "br, gzip", "br, gzip, x"} {
		h.Put("Content-Encoding", []byte([]string{"br", "gzip", "x"}[i]), Adds)
		for range 2 {
			if got := string(h.ContentEncoding()); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}
