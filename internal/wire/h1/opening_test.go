package h1

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// headResult parses a request in pieces of at most size bytes, and returns all that it
// resulted in as text.
func headResult(p *HeadParser, t *field.Table, in []byte, size int) string {
	used, done, err := 0, false, error(nil)
	for used < len(in) && !done && err == nil {
		var n int
		n, done, err = p.Parse(t, in[used:min(used+size, len(in))])
		used += n
	}
	if err != nil || !done {
		return fmt.Sprint(done, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%+v used %d, raw %q, lines %q", describe(p, t), p.Head, used, t.Raw(), t.AppendLines(nil, 0))
	for i := range t.Len() {
		fmt.Fprintf(&b, " [%q=%q]", t.Name(i), t.Value(i))
	}
	for id := range field.Upgrade + 1 {
		i := t.Index(id)
		value, isRaw := t.RawValue(id)
		fmt.Fprintf(&b, " %d,%d,%q,%v", i, t.FindID(id, i+1), value, isRaw)
	}
	return b.String()
}

// A head has the same result, whatever the heads before it were, and whether it comes at
// once or byte by byte, which no fast path can read.
func FuzzOpening(f *testing.F) {
	const get, common = "GET / HTTP/1.1\r\n", "Host: a\r\nAccept: */*\r\n"
	for _, c := range [][5]string{
		{get, common, "\r\n", "GET /b HTTP/1.1\r\n", "\r\n"},
		{get, common, "\r\n", "GET /b?c HTTP/1.0\r\n", "X: y\r\n\r\nrest"},
		{get, common, "Cookie: a\r\n\r\n", "\r\n\r\nPUT http://b/ HTTP/1.1\r\n", "Content-Length: 5\r\n\r\nhello"},
		{get, common, "\r\n", get, common + "\r\n"},
		{get, common, "\r\n", get, " folded\r\n\r\n"},
		{get, "Host: a\r\nConnection: close\r\nconnection: x, keep-alive\r\n", "Transfer-Encoding: chunked\r\n\r\n", get, "Expect: 100-continue\r\n\r\n"},
		{get, common, "\r\n", "GET /%zz HTTP/1.1\r\n", "\r\n"},
		{get, common, "\r\n", get, "\x00"},
		{get, "host:  a\r\nAccept:\t*/*\r\n", "Cookie: a \r\n\r\n", get, "Referer:b\r\nRange: c\r\n\r\n"},
	} {
		f.Add([]byte(c[0]), []byte(c[1]), []byte(c[2]), []byte(c[3]), []byte(c[4]), uint8(9))
	}
	f.Fuzz(func(t *testing.T, line1, common, rest1, line2, rest2 []byte, options uint8) {
		first, second, limits := similarHeads(t, line1, common, rest1, line2, rest2, options)
		want := headResult(&HeadParser{Limits: limits}, &field.Table{KeepNames: options&1 != 0}, second, 1)
		p := HeadParser{Limits: DefaultLimits, Opening: new(Opening)}
		var tab field.Table
		for _, head := range [][]byte{nil, first, second} { // without an Opening, with another's and with its own
			headResult(&p, &tab, head, 4096)
			p.Reset()
			tab.Reset()
			p.Limits, tab.KeepNames = limits, options&1 != 0
			if got := headResult(&p, &tab, second, 4096); got != want {
				t.Fatalf("%q after %q:\n got %s\nwant %s", second, head, got, want)
			}
			p = HeadParser{Limits: DefaultLimits, Opening: p.Opening}
			tab = field.Table{}
			if head == nil {
				*p.Opening = Opening{}
			}
		}
	})
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// similarHeads returns two heads with common lines, and limits for the second one.
func similarHeads(t *testing.T, line1, common, rest1, line2, rest2 []byte, options uint8) (first, second []byte, limits Limits) {
	first, second = join(line1, common, rest1), join(line2, common, rest2)
	if len(first) > 4096 || len(second) > 4096 {
		t.Skip()
	}
	limits = DefaultLimits
	limits.MaxFields = max(int(options>>1), 1)
	return first, second, limits
}

// What an Opening has after a head, and how many fields the next head takes from it.
func TestOpeningHasOnlyPlainLines(t *testing.T) {
	const start = "Host: a\r\nConnection: close\r\n"
	for _, c := range []struct{ name, lines, want string }{
		{"all", start, start},
		{"cookie", start + "Cookie: secret\r\nAccept: */*\r\n", start},
		{"authorization", start + "Authorization: secret\r\n", start},
		{"unknown", start + "X-Api-Key: secret\r\n", start},
		{"length", start + "Content-Length: 0\r\n", start},
		{"coding", start + "Transfer-Encoding: chunked\r\n", start},
		{"expectation", start + "Expect: 100-continue\r\n", start},
		{"first", "Cookie: secret\r\n" + start, ""},
		{"many", start + strings.Repeat("Accept: a\r\n", 100), start + strings.Repeat("Accept: a\r\n", maxOpeningFields-2)},
		{"long", start + "User-Agent: " + strings.Repeat("a", maxOpening) + "\r\n", ""},
	} {
		p := HeadParser{Limits: DefaultLimits, Opening: new(Opening)}
		var tab field.Table
		in := []byte("GET / HTTP/1.1\r\n" + c.lines + "\r\n")
		want := headResult(&HeadParser{Limits: DefaultLimits}, new(field.Table), in, 1)
		for range 2 {
			p.Reset()
			tab.Reset()
			if got := headResult(&p, &tab, in, len(in)); got != want {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
			}
			if got := string(p.Opening.fields.Raw()); got != c.want {
				t.Errorf("%s: the opening is %q, want %q", c.name, got, c.want)
			}
		}
		if got := strings.Count(c.want, "\n"); p.recalled != got {
			t.Errorf("%s: %d fields are from the opening, want %d", c.name, p.recalled, got)
		}
	}
}

// What is checked for a whole head is checked for one that begins as another did.
func TestOpeningDropsNoCheck(t *testing.T) {
	const head = "GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n"
	for _, c := range []struct {
		in     string
		fields int // the limit
		want   error
	}{
		{head + "\r\n", 2, nil},
		{head + "\r\n", 1, ErrTooManyFields},
		{head + "X: y\r\n\r\n", 2, ErrTooManyFields},
		{head + hostLine + "\r\n", 9, ErrHostDuplicate},
		{head + " b\r\n\r\n", 9, ErrFolding},
		{head + "\n", 9, ErrBareLF},
		{head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 9, ErrLengthAndCoding},
		{strings.Replace(head, "Host: a", "Host: b@", 1) + "\r\n", 9, ErrHost},
		{strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n", 9, ErrTransferCodingHTTP10},
	} {
		p := HeadParser{Limits: DefaultLimits, Opening: new(Opening)}
		var tab field.Table
		if _, done, err := p.Parse(&tab, []byte(head+"\r\n")); !done || err != nil {
			t.Fatal(done, err)
		}
		copy(tab.Raw(), "a handler may write where the head was")
		p.Reset()
		tab.Reset()
		p.Limits.MaxFields = c.fields
		if _, done, err := p.Parse(&tab, []byte(c.in)); done != (err == nil) || !errors.Is(err, c.want) {
			t.Errorf("%q: done=%v, %v, want %v", c.in, done, err, c.want)
		}
	}
}

// The Host may come after the lines that an Opening has: a head of these lines only has none.
func TestOpeningWithoutHost(t *testing.T) {
	const opening = "GET / HTTP/1.1\r\nAccept: */*\r\n"
	p := HeadParser{Limits: DefaultLimits, Opening: new(Opening)}
	var tab field.Table
	for _, c := range []struct {
		in       string
		recalled int
		want     error
	}{
		{opening + "X: y\r\n" + hostLine + "\r\n", 0, nil},
		{opening + hostLine + "\r\n", 1, nil},
		{opening + "\r\n", 1, ErrHostMissing},
	} {
		p.Reset()
		tab.Reset()
		if _, _, err := p.Parse(&tab, []byte(c.in)); !errors.Is(err, c.want) || p.recalled != c.recalled {
			t.Errorf("%q: %v, %d fields are from the opening", c.in, err, p.recalled)
		}
	}
}

// If requests differ, an Opening is given up, and another made after a while.
func TestOpeningIsReplaced(t *testing.T) {
	p := HeadParser{Limits: DefaultLimits, Opening: new(Opening)}
	var tab field.Table
	parse := func(host string) (recalled int) {
		p.Reset()
		tab.Reset()
		if _, done, err := p.Parse(&tab, []byte("GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")); !done || err != nil {
			t.Fatal(done, err)
		}
		return p.recalled
	}
	parse("a")
	for i := range openingTries {
		if parse("a") != 1 || parse("b") != 0 {
			t.Fatalf("after %d requests of each, the opening is not that of a", i)
		}
	}
	for range openingTries {
		parse("b")
	}
	if parse("a") != 0 {
		t.Error("the opening is looked at though the last requests differed from it")
	}
	for i := 0; parse("b") == 0; i++ {
		if i > openingLife {
			t.Fatal("b never becomes the opening")
		}
	}
}
