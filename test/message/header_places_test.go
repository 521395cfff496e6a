package message_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A fieldsHeader has the methods that both headers share.
type fieldsHeader interface {
	Read(r *bufio.Reader) error
	String() string
	Peek(key string) []byte
	PeekAll(key string) [][]byte
	Set(key, value string)
	SetBytesK(key []byte, value string)
	SetBytesV(key string, value []byte)
	SetBytesKV(key, value []byte)
	SetCanonical(key, value []byte)
	Add(key, value string)
	AddBytesK(key []byte, value string)
	AddBytesV(key string, value []byte)
	AddBytesKV(key, value []byte)
	Del(key string)
	Len() int
}

// bothHeaders are the start lines with which a header is read. Each needs the
// field Host: h, so that both have the same fields.
var bothHeaders = []struct {
	start string
	make  func() fieldsHeader
}{
	{"GET / HTTP/1.1", func() fieldsHeader { return new(sluice.RequestHeader) }},
	{"HTTP/1.1 204 No Content", func() fieldsHeader { return new(sluice.ResponseHeader) }},
}

// TestFieldsInEveryPlace: a field is found, set and removed wherever it is among
// the fields, alone and twice.
func TestFieldsInEveryPlace(t *testing.T) {
	for _, test := range []struct{ name, one, two string }{
		{"X-Other", "1", "2"}, {"Accept-Encoding", "gzip", "br"}, {"Set-Cookie", "a=1; path=/", "b=2"},
		{"Via", "a", "b"}, {"Upgrade", "x", "y"}, {"Range", "bytes=0-1", "x"},
		{"Connection", "upgrade", "x"}, {"Trailer", "T-One", "T-Two"}, {"Last-Modified", "x", "y"},
	} {
		for _, kind := range bothHeaders {
			if kind.start[0] == 'G' && test.name == "Set-Cookie" {
				continue
			}
			for first := range 3 {
				for second := first; second < 4; second++ {
					lines := []string{kind.start, "Host: h", "X-A: a"}
					lines = slices.Insert(lines, 1+first, test.name+": "+test.one)
					if second > first {
						lines = slices.Insert(lines, 1+second, test.name+": "+test.two)
					}
					checkPlaces(t, kind.make(), strings.Join(lines, "\r\n")+"\r\n\r\n", test.name, test.one)
				}
			}
		}
	}
}

func checkPlaces(t *testing.T, h fieldsHeader, head, name, one string) {
	t.Helper()
	if err := h.Read(harness.Reader(head)); err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	written := strings.Count(head, name+": ")
	all, peeked := written, one
	switch {
	case written == 2 && name == "Trailer":
		all, written, peeked = 1, 1, "T-One, T-Two"
	case written == 2 && name == "Set-Cookie":
		all, peeked = 1, "a=1; path=/; b=2"
	}
	if got := string(h.Peek(name)); got != peeked {
		t.Errorf("%q: Peek(%s) is %q", head, name, got)
	}
	if got := len(h.PeekAll(name)); got != all {
		t.Errorf("%q: PeekAll(%s) has %d values", head, name, got)
	}
	if got := strings.Count(h.String(), name+": "); got != written {
		t.Errorf("%q: %s is written %d times: %q", head, name, got, h.String())
	}
	n := h.Len()
	h.Del(name)
	if h.Peek(name) != nil || len(h.PeekAll(name)) != 0 || strings.Contains(h.String(), name) || h.Len() != n-written {
		t.Errorf("%q: after Del(%s): %q", head, name, h.String())
	}
	if string(h.Peek("X-A")) != "a" || string(h.Peek("Host")) != "h" {
		t.Errorf("%q: Del(%s) removed others: %q", head, name, h.String())
	}
}

// TestEverySetter: each of the setters sets or adds a field, and none sets a Date
// that the server writes.
func TestEverySetter(t *testing.T) {
	for _, kind := range bothHeaders {
		for name, set := range map[string]func(h fieldsHeader, key, value string){
			"Set":          fieldsHeader.Set,
			"SetBytesK":    func(h fieldsHeader, key, value string) { h.SetBytesK([]byte(key), value) },
			"SetBytesV":    func(h fieldsHeader, key, value string) { h.SetBytesV(key, []byte(value)) },
			"SetBytesKV":   func(h fieldsHeader, key, value string) { h.SetBytesKV([]byte(key), []byte(value)) },
			"SetCanonical": func(h fieldsHeader, key, value string) { h.SetCanonical([]byte(key), []byte(value)) },
			"Add":          fieldsHeader.Add,
			"AddBytesK":    func(h fieldsHeader, key, value string) { h.AddBytesK([]byte(key), value) },
			"AddBytesV":    func(h fieldsHeader, key, value string) { h.AddBytesV(key, []byte(value)) },
			"AddBytesKV":   func(h fieldsHeader, key, value string) { h.AddBytesKV([]byte(key), []byte(value)) },
		} {
			h, adds := kind.make(), name[0] == 'A'
			for _, value := range []string{"1", "2"} {
				set(h, "X-Y", value)
				set(h, "Content-Type", "text/"+value)
				set(h, "Date", "never")
				set(h, "Content-Length", "no number")
			}
			want := []string{"2"}
			if adds {
				want = []string{"1", "2"}
			}
			if got := fmt.Sprintf("%s", h.PeekAll("X-Y")); got != fmt.Sprint(want) {
				t.Errorf("%T.%s: %s", h, name, got)
			}
			if got := fmt.Sprintf("%s", h.PeekAll("Content-Type")); got != "[text/2]" {
				t.Errorf("%T.%s: %s", h, name, got)
			}
			if isResponse := kind.start[0] == 'H'; isResponse == (h.Peek("Date") != nil) || h.Peek("Content-Length") != nil {
				t.Errorf("%T.%s: Date %q, Content-Length %q", h, name, h.Peek("Date"), h.Peek("Content-Length"))
			}
		}
	}
}

// TestCookiesInEveryPlace: cookies are found, replaced and removed wherever their
// fields are.
func TestCookiesInEveryPlace(t *testing.T) {
	places := [][]string{{"A", "B", "X"}, {"A", "X", "B"}, {"X", "A", "B"}, {"X", "A", "Y", "B"}}
	lines := map[string]string{"A": "Cookie: a=1", "B": "Cookie: b=2", "X": "Host: h", "Y": "Y: y"}
	set := map[string]string{"A": "Set-Cookie: a=1; path=/", "B": "Set-Cookie: b=2", "X": "Host: h", "Y": "Y: y"}
	for _, place := range places {
		head, answer := "GET / HTTP/1.1\r\n", "HTTP/1.1 204 No Content\r\n"
		for _, p := range place {
			head, answer = head+lines[p]+"\r\n", answer+set[p]+"\r\n"
		}
		h := harness.ReadRequest(t, head+"\r\n")
		if got := string(h.Cookie("a")) + string(h.Cookie("b")) + " " + string(h.Peek("Cookie")); got != "12 a=1; b=2" {
			t.Errorf("%s: cookies %q", place, got)
		}
		h.SetCookie("a", "3")
		h.DelCookie("b")
		if got := fieldsOf(h.Cookies()); got != "a=3" || strings.Count(h.String(), "Cookie") != 1 {
			t.Errorf("%s: set and removed: %q, %q", place, got, h.String())
		}

		r := harness.ReadResponse(t, answer+"\r\n")
		if got := fieldsOf(r.Cookies()); got != "a=a=1; path=/ b=b=2" {
			t.Errorf("%s: set cookies %q", place, got)
		}
		if got := string(r.Peek("Set-Cookie")); got != "a=1; path=/; b=2" {
			t.Errorf("%s: joined %q", place, got)
		}
		var c sluice.Cookie
		for key, want := range map[string]string{"a": "a=1; path=/", "b": "b=2"} {
			c.SetKey(key)
			if !r.Cookie(&c) || string(c.Cookie()) != want || string(r.PeekCookie(key)) != want {
				t.Errorf("%s: cookie %s is %q, %q", place, key, c.Cookie(), r.PeekCookie(key))
			}
		}
		for _, key := range []string{"b", "a"} {
			c.SetKey(key)
			c.SetValue("new")
			r.SetCookie(&c)
			if got := string(r.PeekCookie(key)); !strings.HasPrefix(got, key+"=new") {
				t.Errorf("%s: replaced %q", place, got)
			}
			r.DelCookie(key)
			if r.PeekCookie(key) != nil || strings.Contains(r.String(), key+"=") {
				t.Errorf("%s: not removed: %q", place, r.String())
			}
		}
	}
}

// TestConnectionInEveryPlace: the options of Connection are found, and close is
// removed, wherever the field is.
func TestConnectionInEveryPlace(t *testing.T) {
	for _, kind := range bothHeaders {
		for place := range 3 {
			for value, left := range map[string]string{"close": "", "close, x": "Connection: x", "x, close , y": "Connection: x, y"} {
				lines := slices.Insert([]string{kind.start, "Host: h", "X-A: a"}, 1+place, "Connection: "+value)
				h := kind.make()
				if err := h.Read(harness.Reader(strings.Join(lines, "\r\n") + "\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				c := h.(interface {
					ResetConnectionClose()
					ConnectionClose() bool
				})
				if !c.ConnectionClose() || strings.Count(h.String(), "Connection: "+value+"\r\n") != 1 {
					t.Errorf("%q at %d: %q", value, place, h.String())
				}
				c.ResetConnectionClose()
				if got := h.String(); c.ConnectionClose() || strings.Count(got, "Connection") != min(1, len(left)) || !strings.Contains(got, left) {
					t.Errorf("%q at %d, reset: %q", value, place, got)
				}
			}
		}
	}
}
