package message

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestAnnounce: names that must not be in a trailer section are left out (RFC 9110 section 6.5.1).
func TestAnnounce(t *testing.T) {
	for _, test := range []struct {
		list, want string
		isBad      bool
	}{
		{"", "", false},
		{"a", "A", false},
		{" x-sum ,\tETag,a", "X-Sum, Etag, A", false},
		{"a, A, a", "A", false},
		{"Host", "", true},
		{"a, content-length, b", "A, B", true},
		{"Transfer-Encoding", "", true},
		{"Trailer", "", true},
		{"Set-Cookie", "", true},
		{"a, , b", "A, B", true},
		{"a b", "", true},
		{"a,", "A", false},
		{"a , ", "A", false},
		{"a,,", "A", true},
		{",", "", true},
	} {
		for name, announce := range map[string]func(h *Header) error{
			"Announce":            func(h *Header) error { return h.Announce([]byte(test.list)) },
			"ReplaceAnnouncement": func(h *Header) error { return h.ReplaceAnnouncement([]byte(test.list)) },
		} {
			var h RequestHeader
			if err := announce(&h.Header); (err == ErrBadTrailer) != test.isBad || err != nil && !test.isBad {
				t.Errorf("%s %q: %v", name, test.list, err)
			}
			if got := string(h.Peek([]byte("trailer"))); got != test.want || h.HasTrailers() != (test.want != "") {
				t.Errorf("%s %q: %q, want %q", name, test.list, got, test.want)
			}
		}
	}
}

// TestMaxAnnounced: a peer cannot make a message announce many names.
func TestMaxAnnounced(t *testing.T) {
	var names []string
	for i := range MaxAnnounced {
		names = append(names, fmt.Sprintf("X-%d", i))
	}
	var h RequestHeader
	if err := h.Announce([]byte(strings.Join(names, ","))); err != nil {
		t.Errorf("%d names: %v", MaxAnnounced, err)
	}
	if err := h.Announce([]byte("x-0")); err != nil {
		t.Errorf("a name that is announced: %v", err)
	}
	if err := h.Announce([]byte("Y, Z")); err != ErrBadTrailer {
		t.Errorf("one more name: %v", err)
	}
	if got := len(h.TrailerKeys()); got != MaxAnnounced {
		t.Errorf("%d names are announced", got)
	}
	var received field.Table
	received.Add(field.Other, []byte("Y"), []byte("1"))
	h.ReceiveTrailers(&received)
	if got := string(h.Peek([]byte("Y"))); got != "1" {
		t.Errorf("one more field was received: %q", got)
	}
}

// TestFieldsMoveWithTheAnnouncement: a field is in the head or in the trailer section.
func TestFieldsMoveWithTheAnnouncement(t *testing.T) {
	var h RequestHeader
	step := func(name, head, section string) {
		t.Helper()
		if got := string(h.AppendHead(nil, Framing{Length: -2})); got != "GET / HTTP/1.1\r\n"+head+"\r\n" {
			t.Errorf("%s: head %q, want %q", name, got, head)
		}
		if got := string(h.TrailerSection()); got != section+"\r\n" {
			t.Errorf("%s: section %q, want %q", name, got, section)
		}
	}
	step("nothing", "", "")
	h.Put("A", []byte("1"), Adds)
	h.Put("A", []byte("2"), Adds)
	h.Put("B", []byte("3"), Adds)
	h.Put("Date", []byte("now"), Sets)
	h.Put("Trailer", []byte("a, date"), Sets)
	step("announced", "B: 3\r\nTrailer: A, Date\r\n", "A: 1\r\nA: 2\r\nDate: now\r\n")
	h.Put("A", []byte("4"), Sets)
	h.Put("Date", []byte("then"), Sets|DropsDate)
	step("set", "B: 3\r\nTrailer: A, Date\r\n", "A: 4\r\nA: 2\r\nDate: then\r\n")
	h.Put("A", []byte("5"), Adds)
	step("added", "B: 3\r\nTrailer: A, Date\r\n", "A: 4\r\nA: 2\r\nDate: then\r\nA: 5\r\n")
	h.SetKnown(field.Date, []byte("set"))
	h.Put("Trailer", []byte("b, a"), Sets)
	step("replaced", "Date: set\r\nTrailer: A, B\r\n", "A: 4\r\nA: 2\r\nA: 5\r\nB: 3\r\n")
	h.Del([]byte("A"))
	step("deleted", "Date: set\r\nTrailer: A, B\r\n", "B: 3\r\n")
	h.Put("A", []byte("x\x01\ny"), Sets)
	step("control characters", "Date: set\r\nTrailer: A, B\r\n", "B: 3\r\nA: x  y\r\n")
	h.Del([]byte("Trailer"))
	if got := string(h.Head()); !strings.Contains(got, "\r\nB: 3\r\n") || strings.Contains(got, "Trailer") || h.HasTrailers() {
		t.Errorf("no longer announced: %q", got)
	}
}

// TestReceivedTrailersStay: a field that was received in a trailer section never becomes a field of
// the head (RFC 9110 section 6.5.1).
func TestReceivedTrailersStay(t *testing.T) {
	var h RequestHeader
	_ = h.Announce([]byte("A, B"))
	h.Put("B", []byte("set"), Sets)
	var received field.Table
	for _, name := range []string{"a", "C", "A"} {
		received.Add(field.Other, []byte(name), []byte("received"))
	}
	h.ReceiveTrailers(&received)
	if got, want := fmt.Sprintf("%s", h.TrailerKeys()), "[A B C]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h.Put("Trailer", nil, Sets)
	if got, want := string(h.AppendHead(nil, Framing{Length: -2})), "GET / HTTP/1.1\r\nB: set\r\n\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := string(h.AppendTrailers([]byte("x"))), "xA: received\r\nC: received\r\nA: received\r\n\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := fmt.Sprintf("%s", h.TrailerKeys()), "[A C]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h.Put("C", []byte("head"), Sets)
	_ = h.Announce([]byte("C"))
	if got := string(bytes.Join(h.PeekAll([]byte("C")), []byte("|"))); got != "head|received" {
		t.Errorf("head and section have %q", got)
	}
	var first RequestHeader
	received.Reset()
	received.Add(field.Other, []byte("D"), []byte("received"))
	first.ReceiveTrailers(&received)
	first.Put("Trailer", nil, Sets)
	first.Put("D", []byte("head"), Sets)
	_ = first.Announce([]byte("D"))
	if got := string(first.AppendTrailers(nil)); got != "D: received\r\n\r\n" {
		t.Errorf("the section is %q", got)
	}
	h.Put("C", []byte("replaced"), Sets)
	if got := string(bytes.Join(h.PeekAll([]byte("C")), []byte("|"))); got != "replaced" {
		t.Errorf("after it was set, head and section have %q", got)
	}
}

// TestVisitTrailers stops where its caller wants.
func TestVisitTrailers(t *testing.T) {
	var h RequestHeader
	for range h.VisitTrailers {
		t.Error("there is none")
	}
	_ = h.Announce([]byte("A, B"))
	var received field.Table
	received.Add(field.Other, []byte("C"), nil)
	received.Add(field.Other, []byte("C"), nil)
	received.Add(field.Other, []byte("D"), nil)
	h.trailers().values = received // not announced
	for stop, want := range []string{"A", "A B", "A B C", "A B C D", "A B C D"} {
		var got []string
		for name := range h.VisitTrailers {
			if got = append(got, string(name)); len(got) > stop {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPeekTrailers: getters look in the trailer section after the head.
func TestPeekTrailers(t *testing.T) {
	var h ResponseHeader
	_ = h.Announce([]byte("X, Date, Server"))
	for _, name := range []string{"X", "Date", "Server"} {
		h.Put(name, []byte("t"), Sets)
		for spelling, isCanonical := range map[string]bool{name: true, strings.ToLower(name): false} {
			if got := string(h.Peek([]byte(spelling))); got != "t" {
				t.Errorf("%s is %q", spelling, got)
			}
			if got := h.PeekCanonical([]byte(spelling)); (string(got) == "t") != isCanonical {
				t.Errorf("by its canonical name, %s is %q", spelling, got)
			}
			if got := string(bytes.Join(h.PeekAll([]byte(spelling)), []byte("|"))); got != "t" {
				t.Errorf("all of %s are %q", spelling, got)
			}
		}
		if h.DelAny(name); h.Peek([]byte(name)) != nil {
			t.Errorf("%s is there after it was deleted", name)
		}
	}
	if got := string(h.Peek([]byte("Trailer"))); got != "X, Date, Server" {
		t.Errorf("%q is announced", got)
	}
}

// TestKeepNamesOfTrailers: the setting is that of the head.
func TestKeepNamesOfTrailers(t *testing.T) {
	var h RequestHeader
	h.SetKeepNames(true)
	_ = h.Announce([]byte("x-a"))
	h.Put("x-a", []byte("1"), Sets)
	if got := string(h.TrailerSection()); got != "x-a: 1\r\n\r\n" {
		t.Errorf("%q", got)
	}
	h.ResetMessage()
	_ = h.Announce([]byte("x-b"))
	if got := string(h.Peek([]byte("Trailer"))); got != "x-b" {
		t.Errorf("after ResetMessage: %q", got)
	}
	h.Reset()
	_ = h.Announce([]byte("x-b"))
	if got := string(h.Peek([]byte("Trailer"))); got != "X-B" {
		t.Errorf("after Reset: %q", got)
	}
}

// TestAppendTrailerFields: values have neither control characters nor blanks around them (RFC 9113
// section 8.2.1). A name without a value is not sent.
func TestAppendTrailerFields(t *testing.T) {
	var h ResponseHeader
	var e h2.Encoder
	e.Reset(&h2.Pairs{})
	if got := h.AppendTrailerFields([]byte("x"), &e); string(got) != "x" {
		t.Errorf("without trailers: %q", got)
	}
	_ = h.Announce([]byte("X-A, Etag, X-B"))
	h.Put("X-A", []byte(" 1\x01\t"), Sets)
	h.Put("Etag", []byte(`"a"`), Sets)
	var fields field.Table
	var head fieldlist.Head
	d := h2.Decoder{List: fieldlist.List{Limits: h1.DefaultLimits}}
	d.Reset()
	d.Begin(fieldlist.Trailer, &fields, &head)
	if err := d.Push(h.AppendTrailerFields(e.Begin(nil), &e)); err != nil {
		t.Fatal(err)
	}
	if err := d.End(); err != nil {
		t.Fatal(err)
	}
	if fields.Len() != 2 || string(fields.Value(0)) != "1" || string(fields.Name(0)) != "X-A" || string(fields.Get(field.ETag)) != `"a"` {
		t.Errorf("%d fields, the first is %q: %q", fields.Len(), fields.Name(0), fields.Value(0))
	}
}

// TestSetTrailersReturn: a trailer field that was set, not received, is one of the head when it
// is not announced any more, in whichever order it was.
func TestSetTrailersReturn(t *testing.T) {
	var h RequestHeader
	_ = h.Announce([]byte("A, B"))
	h.Put("A", []byte("set"), Sets)
	_ = h.ReplaceAnnouncement([]byte("B, A"))
	_ = h.ReplaceAnnouncement([]byte("B"))
	if got, want := string(h.AppendHead(nil, Framing{Length: -2})), "GET / HTTP/1.1\r\nA: set\r\nTrailer: B\r\n\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(h.AppendTrailers(nil)); got != "\r\n" {
		t.Errorf("the section is %q", got)
	}
}
