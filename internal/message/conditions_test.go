package message

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/conditional"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

func TestAddVary(t *testing.T) {
	for before, want := range map[string]string{
		"": "Accept-Encoding", "Origin": "Origin,Accept-Encoding", "*": "*",
		"accept-encoding": "accept-encoding", "Origin, Accept-Encoding": "Origin, Accept-Encoding",
		"Accept-Encodings": "Accept-Encodings,Accept-Encoding",
	} {
		var h ResponseHeader
		h.Table.Set(field.Vary, []byte(before))
		h.AddVary("Accept-Encoding")
		if got := string(h.Table.Get(field.Vary)); got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
	for _, second := range []string{"accept-encoding", "Origin, Accept-Encoding", "*", "Origin"} {
		var h ResponseHeader
		h.Put("Vary", []byte("Accept"), Adds)
		h.Put("Vary", []byte(second), Adds)
		h.AddVary("Accept-Encoding")
		want := "Accept"
		if second == "Origin" {
			want = "Accept,Accept-Encoding"
		}
		if got := string(h.AppendHead(nil, Framing{})); !strings.Contains(got, "\r\nVary: "+want+"\r\nVary: "+second+"\r\n") {
			t.Errorf("a second field %q: %q", second, got)
		}
	}
	var h ResponseHeader
	if err := h.Announce([]byte("Vary")); err != nil {
		t.Fatal(err)
	}
	h.Put("Vary", []byte("Origin"), 0)
	h.AddVary("Accept-Encoding")
	if got := string(h.AppendHead(nil, Framing{})); !strings.Contains(got, "\r\nVary: Accept-Encoding\r\n") {
		t.Errorf("with a trailer field of that name: %q", got)
	}
}

// TestConditions: the order of RFC 9110 section 13.2.2. Dates that occur twice or are none count as
// absent (sections 13.1.3 and 13.1.4).
func TestConditions(t *testing.T) {
	const before, at, after = "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"
	modified, ok := UnixDate([]byte(at))
	if !ok || modified != 784111777 {
		t.Fatalf("%s is %d, %v", at, modified, ok)
	}
	v := conditional.Validators{ETag: []byte(`"a"`), Modified: modified, HasModified: true}
	for fields, want := range map[string]conditional.Verdict{
		"":                                      conditional.Proceed,
		`If-None-Match: "a"`:                    conditional.NotModified,
		`If-None-Match: W/"a"`:                  conditional.NotModified,
		`If-None-Match: "b"`:                    conditional.Proceed,
		`If-None-Match: "b"|if-none-match: "a"`: conditional.NotModified,
		`If-None-Match: "b"|If-Modified-Since: ` + at: conditional.Proceed,
		`If-Match: "a"`:                                          conditional.Proceed,
		`If-Match: "b"`:                                          conditional.PreconditionFailed,
		`If-Match: "b"|If-Match: "a"`:                            conditional.Proceed,
		`If-Match: "b"|If-None-Match: "a"`:                       conditional.PreconditionFailed,
		"If-Modified-Since: " + at:                               conditional.NotModified,
		"If-Modified-Since: " + before:                           conditional.Proceed,
		"If-Modified-Since: x":                                   conditional.Proceed,
		"If-Modified-Since: " + at + "|If-Modified-Since: " + at: conditional.Proceed,
		"If-Unmodified-Since: " + at:                             conditional.Proceed,
		"If-Unmodified-Since: " + after:                          conditional.Proceed,
		"If-Unmodified-Since: " + before:                         conditional.PreconditionFailed,
		"If-Unmodified-Since: " + before + "|If-Unmodified-Since: " + before: conditional.Proceed,
	} {
		var h RequestHeader
		h.SetKeepNames(true) // the spelling does not matter
		for _, f := range strings.Split(fields, "|") {
			name, value, _ := strings.Cut(f, ": ")
			h.Put(name, []byte(value), Adds)
		}
		if got := h.Conditions(true, v); got != want {
			t.Errorf("%q: %d, want %d", fields, got, want)
		}
		if want == conditional.NotModified && strings.HasPrefix(fields, "If-None-Match") {
			want = conditional.PreconditionFailed // section 13.1.2
		} else if want == conditional.NotModified {
			want = conditional.Proceed // section 13.1.3: the method is not GET or HEAD
		}
		if got := h.Conditions(false, v); got != want {
			t.Errorf("%q, POST: %d, want %d", fields, got, want)
		}
	}
}

// TestLines: all fields of a name are found, in any spelling.
func TestLines(t *testing.T) {
	var h RequestHeader
	h.SetKeepNames(true)
	for _, name := range []string{"Range", "x-a", "range", "X-A"} {
		h.Put(name, []byte(name), Adds)
	}
	if got := string(bytes.Join(h.AppendLines([][]byte{[]byte("0")}, field.Range), []byte("|"))); got != "0|Range|range" {
		t.Errorf("AppendLines: %q", got)
	}
	if got := string(bytes.Join(h.AppendAny([][]byte{[]byte("0")}, "X-a"), []byte("|"))); got != "0|x-a|X-A" {
		t.Errorf("AppendAny: %q", got)
	}
	if got, ok := h.SingleLine(field.Range); ok || string(got) != "Range" {
		t.Errorf("SingleLine of two: %q, %v", got, ok)
	}
	if got, ok := h.SingleLine(field.Accept); ok || got != nil {
		t.Errorf("SingleLine of none: %q, %v", got, ok)
	}
	h.Put("accept", nil, Adds)
	if _, ok := h.SingleLine(field.Accept); !ok {
		t.Error("SingleLine of one: false")
	}
}
