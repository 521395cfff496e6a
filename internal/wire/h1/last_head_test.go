package h1

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A response's head has the same result, whatever the heads before it were, and whether it comes
// at once or byte by byte, which no fast path can read.
func FuzzLastHead(f *testing.F) {
	const ok, common = "HTTP/1.1 200 OK\r\n", "Server: a\r\nDate: b\r\nContent-Length: 5\r\nConnection: keep-alive\r\n"
	for _, c := range [][5]string{
		{ok, common, "\r\n", "HTTP/1.1 404 Not Found\r\n", "\r\n"},
		{ok, common, "\r\n", "HTTP/1.0 200 \r\n", "X: y\r\n\r\nrest"},
		{ok, common, "Set-Cookie: a\r\n\r\n", "\r\n\r\nHTTP/1.1 200 OK\r\n", "Content-Length: 6\r\n\r\nhello"},
		{ok, common, "\r\n", ok, common + "Transfer-Encoding: chunked\r\n\r\n"},
		{ok, common, "\r\n", ok, " folded\r\n\r\n"},
		{ok, common + "Transfer-Encoding: chunked\r\n", "\r\n", ok, "\r\n"},
		{ok, "Transfer-Encoding: chunked\r\nConnection: close\r\n", "\r\n", ok, "Transfer-Encoding: chunked\r\n\r\n"},
		{ok, "Vary: a\r\n b\r\nVary: c \r\n", "\r\n", ok, "\r\n"},
		{ok, "Server: a\r\nSet-Cookie: b\r\nDate: c\r\n", "\r\n", ok, "Date: c\r\n\r\n"},
		{ok, common, "\r\n", ok, "\x00"},
	} {
		f.Add([]byte(c[0]), []byte(c[1]), []byte(c[2]), []byte(c[3]), []byte(c[4]), uint8(19))
	}
	f.Fuzz(func(t *testing.T, line1, common, rest1, line2, rest2 []byte, options uint8) {
		first, second, limits := similarHeads(t, line1, common, rest1, line2, rest2, options)
		want := headResult(&HeadParser{Role: Responses, Limits: limits}, &field.Table{KeepNames: options&1 != 0}, second, 1)
		var last LastHead
		for _, head := range [][]byte{nil, first, second} { // without a LastHead, with another's and with its own
			last.wait = 0
			parse := func(in []byte, l Limits, keepNames bool, size int) string {
				return headResult(&HeadParser{Role: Responses, Limits: l, Last: &last}, &field.Table{KeepNames: keepNames}, in, size)
			}
			if head == nil {
				last = LastHead{}
			} else {
				parse(head, DefaultLimits, false, 4096)
			}
			for _, size := range []int{4096, len(second)/2 + 1} {
				if got := parse(second, limits, options&1 != 0, size); got != want {
					t.Fatalf("%q after %q, %d bytes at a time:\n got %s\nwant %s", second, head, size, got, want)
				}
			}
		}
	})
}

// How many fields of a head the next one takes from a LastHead.
func TestLastHeadComparesOpenLines(t *testing.T) {
	const start = "Server: a\r\nConnection: close\r\nContent-Length: 3\r\n"
	for _, c := range []struct {
		name, lines string
		want        int
		isOpen      bool
	}{
		{"all", start, 3, true},
		{"cookie", start + "Set-Cookie: secret\r\nVary: b\r\n", 4, false},
		{"unknown", "X-Token: secret\r\n" + start, 3, false},
		{"place", start + "Location: /?token=secret\r\n", 3, false},
		{"folded", start + "Vary: a\r\n b\r\n", 3, true},
		{"many", start + strings.Repeat("Vary: a\r\n", 100), maxLastLines, false},
		{"long", start + "Vary: " + strings.Repeat("a", maxLastHead) + "\r\nVary: a\r\n", 3, false},
	} {
		var last LastHead
		in := []byte("HTTP/1.1 200 OK\r\n" + c.lines + "\r\n")
		want := headResult(&HeadParser{Role: Responses, Limits: DefaultLimits}, new(field.Table), in, len(in))
		recalled := 0
		for range 2 {
			p := HeadParser{Role: Responses, Limits: DefaultLimits, Last: &last}
			if got := headResult(&p, new(field.Table), in, len(in)); got != want {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
			}
			if size := len(last.fields.Raw()); last.isOpen != c.isOpen || size > maxLastHead {
				t.Errorf("%s: %d bytes, open %v", c.name, size, last.isOpen)
			}
			recalled = p.recalled
		}
		if recalled != c.want {
			t.Errorf("%s: %d fields are recalled, want %d", c.name, recalled, c.want)
		}
	}
}

// A head with lines that differ has the others recalled, and is kept in its turn.
func TestLastHeadChanges(t *testing.T) {
	var last LastHead
	head := func(second int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: a\r\nDate: %d\r\nContent-Length: %d\r\nConnection: keep-alive\r\n\r\n", second, second)
	}
	recalled := func(in string) int {
		p := HeadParser{Role: Responses, Limits: DefaultLimits, Last: &last}
		if _, done, err := p.Parse(new(field.Table), []byte(in)); !done || err != nil {
			t.Fatal(done, err)
		}
		return p.recalled
	}
	got := []int{recalled(head(1)), recalled(head(1))}
	for range lastHeadLife + 1 {
		got = append(got, recalled(head(2)))
	}
	got = append(got, recalled(head(2)))
	want := []int{0, 4}
	for range lastHeadLife + 1 {
		want = append(want, 2)
	}
	if want = append(want, 4); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v fields are recalled, want %v", got, want)
	}
}

// Lines of a LastHead count for the limit, and those about the framing are checked each time.
func TestLastHeadDropsNoCheck(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 3\r\n"
	for lines, want := range map[string]error{
		"\r\n":                               nil,
		"Content-Length: 4\r\n\r\n":          ErrContentLengthConflict,
		"Transfer-Encoding: chunked\r\n\r\n": ErrLengthAndCoding,
		" folded\r\n\r\n":                    ErrContentLength,
		"Vary: a\r\nVary: b\r\n\r\n":         ErrTooManyFields,
	} {
		var last LastHead
		for _, in := range []string{head + "\r\n", head + lines} {
			p := HeadParser{Role: Responses, Limits: DefaultLimits, Last: &last}
			p.Limits.MaxFields = 3
			if _, _, err := p.Parse(new(field.Table), []byte(in)); in != head+"\r\n" && err != want {
				t.Errorf("%q: %v, want %v", in, err, want)
			}
		}
	}
}

// A head that is the same is measured by the limits of its own parser.
func TestLastHeadKeepsLimits(t *testing.T) {
	const line = "HTTP/1.1 200 Quite all right"
	in := []byte(line + "\r\nServer: a\r\nDate: b\r\n\r\n")
	fits := Limits{MaxLine: len(line), MaxHead: len(in), MaxFields: 2}
	for name, change := range map[string]func(l *Limits){
		"fits":   func(*Limits) {},
		"line":   func(l *Limits) { l.MaxLine-- },
		"head":   func(l *Limits) { l.MaxHead-- },
		"fields": func(l *Limits) { l.MaxFields-- },
	} {
		limits := fits
		change(&limits)
		want := headResult(&HeadParser{Role: Responses, Limits: limits}, new(field.Table), in, len(in))
		var last LastHead
		for i, l := range []Limits{DefaultLimits, limits} {
			p := HeadParser{Role: Responses, Limits: l, Last: &last}
			if got := headResult(&p, new(field.Table), in, len(in)); i == 1 && (got != want || strings.Contains(want, "used") != (name == "fits")) {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want)
			}
		}
	}
}
