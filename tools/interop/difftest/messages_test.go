// Package difftest runs the same inputs through fasthttp and Sluice. Outputs
// must be equal but for differences that are listed with a reason; a listed
// difference that is none any more fails too, so that the lists stay true.
// docs/compatibility.md tells users about them.
package difftest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// differences maps an input to why its outputs differ.
type differences map[string]string

// compare runs every input through both functions, which describe what they
// did in a string.
func compare(t *testing.T, inputs []string, known differences, theirs, ours func(input string) string) {
	t.Helper()
	seen := map[string]bool{}
	for _, input := range inputs {
		seen[input] = true
		want, got := theirs(input), ours(input)
		reason, isKnown := known[input]
		switch {
		case want != got && !isKnown:
			t.Errorf("%q:\nfasthttp: %s\nsluice:   %s", input, want, got)
		case want == got && isKnown:
			t.Errorf("%q: no longer differs (%s)", input, reason)
		}
	}
	for input := range known {
		if !seen[input] {
			t.Errorf("%q is listed as different but not among the inputs", input)
		}
	}
}

// result describes a value, or that there is an error: texts of errors are not
// compared, nor what comes with them.
func result(value any, err error) string {
	if err != nil {
		return "error"
	}
	return fmt.Sprintf("%q", fmt.Sprint(value))
}

func lines(s string) []string { return strings.Split(s, "|") }

func TestParseUint(t *testing.T) {
	compare(t, lines("|0|00|12|-1|+1| 1|1 |12a|a|9223372036854775807|9223372036854775808|18446744073709551616|"+
		"92233720368547758070|00000000000000000000000000001|1.5"), nil,
		func(s string) string { return result(fasthttp.ParseUint([]byte(s))) },
		func(s string) string { return result(sluice.ParseUint([]byte(s))) })
}

func TestParseUfloat(t *testing.T) {
	const notation = "only decimal notation is a number in a query"
	compare(t, lines("|0|1|1.|1.5|.5|.|-1|+1|1e3|1e|1E3|1e+3|1e-3|1e--3|1e+|1e1e1|1.2.3|e1|1a|NaN|Inf|inf|+Inf|"+
		"9999999999999999999999|1e400|1e-400|0.1|3.14159265358979|1e22|0.30000000000000004|1_0|0x10|0x1p2|00.5|1 "),
		differences{"NaN": notation, "Inf": notation, "inf": notation, "+Inf": notation, "1_0": notation, "0x1p2": notation},
		func(s string) string { return result(fasthttp.ParseUfloat([]byte(s))) },
		func(s string) string { return result(sluice.ParseUfloat([]byte(s))) })
}

func TestParseIPv4(t *testing.T) {
	const octal = "a leading zero means octal to some; net.ParseIP refuses it too"
	compare(t, lines("|1.2.3.4|1.2.3|1.2.3.4.5|256.1.1.1|01.2.3.4|0.0.0.0|1.2.3.004|1.2.3.4 | 1.2.3.4|1..3.4|a.b.c.d|"+
		"1.2.3.|255.255.255.255|1.2.3.-4|1.2.3.+4|99999999999999999999.1.1.1|.1.2.3.4"),
		differences{"01.2.3.4": octal, "1.2.3.004": octal},
		func(s string) string { return result(fasthttp.ParseIPv4(nil, []byte(s))) },
		func(s string) string { return result(sluice.ParseIPv4(nil, []byte(s))) })
}

func TestAppendIPv4(t *testing.T) {
	compare(t, []string{"\x01\x02\x03\x04", "\xff\x00\x0a\x63", "\x00\x00\x00\x00", strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01"}, nil,
		func(s string) string { return string(fasthttp.AppendIPv4([]byte("x"), []byte(s))) },
		func(s string) string { return string(sluice.AppendIPv4([]byte("x"), []byte(s))) })
}

func TestParseByteRange(t *testing.T) {
	const (
		unit  = "range units are case-insensitive, RFC 9110 section 14.1"
		large = "a position too large for an int is past the end, not malformed"
	)
	known := differences{
		"Bytes=0-1/1": unit, "Bytes=0-1/100": unit,
		"bytes=0-99999999999999999999/1": large, "bytes=0-99999999999999999999/100": large,
		"bytes=-99999999999999999999/1": large, "bytes=-99999999999999999999/100": large,
	}
	var inputs []string
	for _, s := range lines("bytes=0-1|bytes=0-|bytes=-5|bytes=-|bytes=5-2|bytes=-0|bytes=100-|bytes=99-|bytes=99-200|" +
		"bytes=-200|bytes=0-0|bytes=0-1,3-4|items=0-1|bytes 0-1|Bytes=0-1|bytes= 0-1|bytes=0 -1|bytes=0- 1|bytes=0-1 |" +
		"bytes=a-b|bytes=|bytes||bytes=-a|bytes=1-a|bytes=99999999999999999999-|bytes=0-99999999999999999999|" +
		"bytes=-99999999999999999999|bytes=--1|bytes=1--2|bytes=+1-2|bytes =0-1|=0-1|bytes=9223372036854775807-") {
		inputs = append(inputs, s+"/100", s+"/1", s+"/0", s+"/-1")
	}
	describe := func(parse func([]byte, int) (int, int, error)) func(string) string {
		return func(s string) string {
			slash := strings.LastIndexByte(s, '/')
			var length int
			fmt.Sscan(s[slash+1:], &length)
			start, end, err := parse([]byte(s[:slash]), length)
			return result([2]int{start, end}, err)
		}
	}
	compare(t, inputs, known, describe(fasthttp.ParseByteRange), describe(sluice.ParseByteRange))
}

func TestHTTPDate(t *testing.T) {
	const fraction = "HTTP dates have no fractions of seconds"
	compare(t, lines("Tue, 10 Nov 2009 23:00:00 GMT|Tue, 10 Nov 2009 23:00:00 UTC|Tuesday, 10-Nov-09 23:00:00 GMT|"+
		"Tue Nov 10 23:00:00 2009|Tue Nov  1 23:00:00 2009|Mon, 10 Nov 2009 23:00:00 GMT|Tue, 10 Nov 2009 23:00:00 +0100|"+
		"tue, 10 nov 2009 23:00:00 GMT|tue, 10 nov 2009 23:00:00 gmt|Tue, 1 Nov 2009 23:00:00 GMT||x|Tue, 31 Feb 2009 23:00:00 GMT|"+
		"Thu, 29 Feb 2024 23:00:00 GMT|Tue, 10-Nov-2009 23:00:00 GMT|Tue, 10 Nov 2009 23:00:60 GMT|Tue, 10 Nov 2009 24:00:00 GMT|"+
		"Tue, 00 Nov 2009 23:00:00 GMT| Tue, 10 Nov 2009 23:00:00 GMT|Tue, 10 Nov 2009 23:00:00 GMT |Tue, 10 Nov 0009 23:00:00 GMT|"+
		"Tue, 10 Nov 2009 23:00:00.5 GMT|Xxx, 10 Nov 2009 23:00:00 GMT|Tue, 10 Nov 2009 23-00-00 GMT|Tue, +1 Nov 2009 23:00:00 GMT"),
		differences{
			"Tue, 10 Nov 2009 23:00:00.5 GMT": fraction,
		},
		func(s string) string {
			d, err := fasthttp.ParseHTTPDate([]byte(s))
			return result(d.Format(time.RFC1123), err)
		},
		func(s string) string {
			d, err := sluice.ParseHTTPDate([]byte(s))
			return result(d.Format(time.RFC1123), err)
		})

	for _, date := range []time.Time{{}, time.Unix(0, 0), time.Date(2009, 11, 10, 23, 0, 0, 7, time.FixedZone("x", 3600)),
		time.Date(12009, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(-9, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		want, got := fasthttp.AppendHTTPDate([]byte("x"), date), sluice.AppendHTTPDate([]byte("x"), date)
		if !bytes.Equal(want, got) {
			t.Errorf("AppendHTTPDate(%v): fasthttp %q, sluice %q", date, want, got)
		}
	}
}

func TestAddMissingPort(t *testing.T) {
	const reason = "\":80\" has a port"
	inputs := lines("|a|a:80|a:|[::1]|[::1]:80|::1|[::1|1.2.3.4|:80|a:b:c|[fe80::1%lo0]|[::1]:|[fe80::1%25lo0]:90|x]|[x|a:b")
	for _, isTLS := range []bool{false, true} {
		compare(t, inputs, differences{":80": reason},
			func(s string) string { return fasthttp.AddMissingPort(s, isTLS) },
			func(s string) string { return sluice.AddMissingPort(s, isTLS) })
	}
}

// allBytes returns every byte on its own, and all of them in one string.
func allBytes() []string {
	var inputs []string
	var all []byte
	for c := range 256 {
		inputs = append(inputs, "a"+string([]byte{byte(c)})+"b")
		all = append(all, byte(c))
	}
	return append(inputs, string(all))
}

func TestEscapes(t *testing.T) {
	inputs := append(allBytes(), lines("|%41|%4|%|%zz|a+b|%00|%2F%2f|+%20+|%%41|%4%41|%E4%bd%a0|%+1")...)
	compare(t, inputs, nil,
		func(s string) string {
			return fmt.Sprintf("%q %q %q %q", fasthttp.AppendQuotedArg([]byte("x"), []byte(s)), fasthttp.AppendUnquotedArg([]byte("x"), []byte(s)),
				fasthttp.AppendHTMLEscape([]byte("x"), s), fasthttp.AppendHTMLEscapeBytes(nil, []byte(s)))
		},
		func(s string) string {
			return fmt.Sprintf("%q %q %q %q", sluice.AppendQuotedArg([]byte("x"), []byte(s)), sluice.AppendUnquotedArg([]byte("x"), []byte(s)),
				sluice.AppendHTMLEscape([]byte("x"), s), sluice.AppendHTMLEscapeBytes(nil, []byte(s)))
		})
}

func TestNormalizedHeaderKey(t *testing.T) {
	known := differences{}
	for _, c := range "\x00\x01\x02\x03\x04\x05\x06\a\b\v\f\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f" {
		known["a"+string(c)+"b"] = "control characters become spaces, not only CR and LF"
	}
	inputs := allBytes()[:256]
	inputs = append(inputs, lines("|host|HOST|content-type|cONTENT-tYPE|sec-websocket-key|a--b|-a-b-|a b|x_y|foo bar-baz|é-x|"+
		"a.b-c|1a-2b|-|www-authenticate|etag|te|x:y")...)
	compare(t, inputs, known,
		func(s string) string { return string(fasthttp.AppendNormalizedHeaderKey([]byte("-"), s)) },
		func(s string) string { return string(sluice.AppendNormalizedHeaderKey([]byte("-"), s)) })
}

func TestVisitHeaderParams(t *testing.T) {
	inputs := lines("a=b|a; b=c|; a=b|text/html; charset=utf-8|x; a=b; c=d|x; a=\"b c\"; d=e|x;a=b;c=d|x ; a = b|x; a=\"b\\\"c\"|" +
		"x; a=\"b|x; =b|x; a=|x; a|x; a; b=c|x; a=b c; d=e|x;  a=b  ; c=d|x; a=b;;c=d|x; a=b, c=d|x; a=\"\"; b=c|x; a=\"b\"c; d=e|" +
		"x; A=B|x; a@=b; c=d|x; a=b\x00; c=d|x; a=(b); c=d|x; a=\"é\"||; |form-data; name=\"f\"; filename=\"a;b.txt\"|x; a=\"\\\"|" +
		"x;\ta=b|x; a=b\t;c=d|x; a =b|x; a= b|x; a=é;c=d|x; a=\"b\nc\";d=e|x\"y;z\"; a=b|x; a=\"b\\|x; a=\"\\\\\"; b=c")
	describe := func(visit func([]byte, func(key, value []byte) bool)) func(string) string {
		return func(s string) string {
			var all strings.Builder
			visit([]byte(s), func(key, value []byte) bool {
				fmt.Fprintf(&all, "%q=%q ", key, value)
				return all.Len() < 20
			})
			return all.String()
		}
	}
	inputs = append(inputs, ";; \t; a=b;")
	compare(t, inputs, nil, describe(fasthttp.VisitHeaderParams), describe(sluice.VisitHeaderParams))
}

func TestStatus(t *testing.T) {
	for code := -1; code < 1100; code++ {
		if want, got := fasthttp.StatusMessage(code), sluice.StatusMessage(code); want != got {
			t.Errorf("StatusMessage(%d): fasthttp %q, sluice %q", code, want, got)
		}
		if want, got := fasthttp.StatusCodeIsRedirect(code), sluice.StatusCodeIsRedirect(code); want != got {
			t.Errorf("StatusCodeIsRedirect(%d): fasthttp %v, sluice %v", code, want, got)
		}
	}
}

// args is what both types of Args share.
type args interface {
	Parse(string)
	Len() int
	String() string
	VisitAll(func(key, value []byte))
	Peek(string) []byte
	PeekMulti(string) [][]byte
	Has(string) bool
	Add(key, value string)
	AddNoValue(string)
	Set(key, value string)
	SetNoValue(string)
	SetUint(string, int)
	Del(string)
	Reset()
	Sort(func(x, y []byte) int)
	SortKeys(func(x, y []byte) int)
	GetBool(string) bool
	GetUintOrZero(string) int
	GetUfloatOrZero(string) float64
}

func describeArgs(a args) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d %q", a.Len(), a.String())
	a.VisitAll(func(key, value []byte) { fmt.Fprintf(&s, " %q=%q", key, value) })
	for _, key := range []string{"", "a", "b", "none"} {
		// Whether fasthttp's Peek returns nil or an empty slice for a pair without
		// value depends on what its memory was used for before.
		isMissing := a.Peek(key) == nil && !a.Has(key)
		fmt.Fprintf(&s, " %q: %q(%v) %q %v", key, a.Peek(key), isMissing, a.PeekMulti(key), a.Has(key))
	}
	return s.String()
}

func TestArgsParse(t *testing.T) {
	inputs := append(allBytes(), "", "&", "a", "a=", "=a", "=", "a=b&c=d", "a&b", "a=b=c", "&&a=b&&", "a=b;c=d", "a+b=c+d", "%61=%62",
		"%6=%", "%zz=1", "a=b&a=c&a", "=&=", "a==b", "%3D=%26", "?a=b", "a=b#c", "a&=b&", "a=b&=", "+", "&=&", "%", "a=%")
	compare(t, inputs, nil,
		func(s string) string { var a fasthttp.Args; a.Parse(s); return describeArgs(&a) },
		func(s string) string { var a sluice.Args; a.Parse(s); return describeArgs(&a) })
}

// TestArgsOperations applies the same random operations to both.
func TestArgsOperations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"", "a", "b", "c d", "e&f", "A"}
	values := []string{"", "1", "1.5", "true", "x y", "&=%", "\r\n"}
	for range 2000 {
		var theirs fasthttp.Args
		var ours sluice.Args
		var done []string
		for range 12 {
			key, value, op := keys[random.IntN(len(keys))], values[random.IntN(len(values))], random.IntN(11)
			done = append(done, fmt.Sprintf("%d(%q,%q)", op, key, value))
			for _, a := range []args{&theirs, &ours} {
				applyArgsOperation(a, op, key, value)
			}
			if want, got := describeArgs(&theirs), describeArgs(&ours); want != got {
				t.Fatalf("%v:\nfasthttp: %s\nsluice:   %s", done, want, got)
			}
		}
	}
}

func applyArgsOperation(a args, op int, key, value string) {
	switch op {
	case 0, 1:
		a.Add(key, value)
	case 2:
		a.AddNoValue(key)
	case 3:
		a.Set(key, value)
	case 4:
		a.SetNoValue(key)
	case 5:
		a.SetUint(key, len(value))
	case 6:
		a.Del(key)
	case 7:
		a.Sort(bytes.Compare)
	case 8:
		a.SortKeys(bytes.Compare)
	case 9:
		a.Parse(a.String())
	case 10:
		a.Set("got", fmt.Sprint(a.GetBool(key), a.GetUintOrZero(key), a.GetUfloatOrZero(key)))
	}
}

// uri is what both types of URI share.
type uri interface {
	Parse(host, uri []byte) error
	Update(string)
	Scheme() []byte
	Username() []byte
	Password() []byte
	Host() []byte
	Path() []byte
	PathOriginal() []byte
	LastPathSegment() []byte
	QueryString() []byte
	Hash() []byte
	RequestURI() []byte
	FullURI() []byte
	SetScheme(string)
	SetHost(string)
	SetPath(string)
	SetQueryString(string)
	SetHash(string)
	SetUsername(string)
	SetPassword(string)
}

func describeURI(u uri) string {
	return fmt.Sprintf("%q %q:%q@%q path %q (%q, last %q) query %q hash %q: %q %q", u.Scheme(), u.Username(), u.Password(), u.Host(),
		u.Path(), u.PathOriginal(), u.LastPathSegment(), u.QueryString(), u.Hash(), u.RequestURI(), u.FullURI())
}

// parseURI parses "host uri", where host may be empty.
func parseURI(u uri, s string) string {
	host, target, _ := strings.Cut(s, " ")
	if err := u.Parse([]byte(host), []byte(target)); err != nil {
		return "error"
	}
	return describeURI(u)
}

const (
	strictHost   = "hosts follow RFC 3986 section 3.2.2"
	strictPort   = "ports end at 65535"
	hostUserinfo = "a Host field has no user information (RFC 9112 section 3.2)"
	queryEscaped = "what cannot stand in a query is written percent-encoded"
	hashEscaped  = "what cannot stand in a fragment is written percent-encoded"
)

func TestURIParse(t *testing.T) {
	references := lines("|/|/a|/a/b?c=d#e|?a|#h|/?|/#|/a?|/a#|/a?b?c|/a#b#c|/a#b?c|*|//|//x|//x/y|//x/y?z|///|///a|http://x|http://x/|" +
		"HTTP://X/Y|https://x:443/y|http://x?y|http://x#y|http://x?y/z|http://u:p@x/y|http://u@x/|http://:p@x/|http://u:@x|" +
		"http://u:p:q@x|http://u@v@x/|http://@x/|http://u%41:p%42@x/|http://u/a@x/|http://ü@x/|http://u\"@x/|ftp://x/|x:80|x:80/y|x:y|" +
		"x.com/y|javascript:alert(1)|://x|://|http:/x|http:x|http:///x|http:////x|http://|1http://x/|ht-tp://x|a+b.c-d://x/y|/http://x/|" +
		"/a:b|/a://b|a/b://c|a?b://c|?http://x/|http://[::1]/|http://[::1]:80/x|http://[::1|http://::1/|http://x:80:80/|http://x:/|" +
		"http://x:a/|http://x%20y/|http://x%41/|http://x\\y/|http://[fe80::1%en0]/|http://ex%zz/|http://é.com/|" +
		"http://%C3%A9.com/|http://x\x00/|http://x\r\n/|/a\r\nb|/é|/%|/%zz|/%41%2f%2F|/a%00b|http://x_y/|http://x!$&'()*+,;=/|" +
		"http://[x]/|http://[::1]x/|http://x[::1]/|http://[]/|http://X.CoM/|http://:80/|\\x|/\\x\\..\\y|/a/../b|/a/./b|/..|/../|/a/..|/a/.|/.|/./|" +
		"/a//b|/a///b//|/a/b/../../c|/a%2Fb//c/../d|/a/%2e%2e/b|/a/%2e/b|/...|/a...|/.a|/a/..b|/a/b../c|//a/../b|/+|/a+b|/a%2Bb|" +
		"/%2F/x|/a/%2F../b|/a;b=c|http://x/a/../b?c/../d|/a?b=c&d=e#f|/a/..//..|/a/.//../b|/a/../.|/a/./.|/%2e|/%2E%2E|/a/%2e%2E|%2Fa|%2e%2e/a|" +
		"/a%252Fb|?x=/../y|/%2541")
	var inputs []string
	for _, reference := range references {
		inputs = append(inputs, " "+reference, "h.com "+reference, "H.com:80 "+reference)
	}
	compare(t, inputs, nil,
		func(s string) string { return parseURI(new(fasthttp.URI), s) },
		func(s string) string { return parseURI(new(sluice.URI), s) })
}

func TestURIParseDifferences(t *testing.T) {
	known := differences{
		" http://x<y>/": strictHost, " http://x\"y/": strictHost, "x<y> /": strictHost, "\"x\" /": strictHost,
		" http://[::1%25eth0]/":  "M81: the zone is written escaped",
		" http://[::1%25a%20b]/": strictHost, " http://[::1%25a<b]/": strictHost,
		" http://[::1%25a%25b]/": strictHost, " http://[::1%25é]/": strictHost, " http://[v1.x]/": strictHost,
		" http://x:99999/": strictPort, "x:65536 /": strictPort, " http://x:0080/": "",
		"u@x /": hostUserinfo, "u:p@x /": hostUserinfo, "@x /": hostUserinfo,
		" /?q=é": queryEscaped, " /?q=<b>\"": queryEscaped, " /#é": hashEscaped, " /#<": hashEscaped,
		" /?q={}|\\^`": queryEscaped, " /?q=50%": queryEscaped, " /#{}|\\^`": hashEscaped, " /#50%": hashEscaped,
	}
	delete(known, " http://x:0080/")
	inputs := []string{" http://[::1]]/", " http://[::1%25]/", "[::1]:80 /", "[::1 /", "x:80:80 /", "::1 /", "x/ /", "x?y /", "x: /", "x: /p", "X. /", "[::1] /", "a,b /",
		"x%20 /", "x%C3%A9 /", "xé /", "[1.2.3.4] /", "[::ffff:1.2.3.4] /", " http://x:65535/", " http://x:0080/", " /?q=[]%41", " /#[]%41"}
	for input := range known {
		inputs = append(inputs, input)
	}
	compare(t, inputs, known,
		func(s string) string { return parseURI(new(fasthttp.URI), s) },
		func(s string) string { return parseURI(new(sluice.URI), s) })
}

func TestURIUpdate(t *testing.T) {
	const (
		emptied = "a reference that cannot be parsed leaves the zero URI: no half-parsed host"
		split   = "\"?query#hash\" is split at \"#\""
		written = "control characters are percent-encoded when they are written"
	)
	known := map[string]string{
		"http://bad host/": emptied, "http://[::1/": emptied, "//bad host/x": emptied,
		"?y#z": split, "?\r\nx": written, "#\x00": written, "?\t#z": written,
	}
	references := lines("|/|/x|x|./x|../x|../../../x|?y|?y#z|#z|x?y#z|//k|//k/x|//k/x?y#z|https://k/x|HTTPS://K/X|ftp://k|://k|http:/x|" +
		"http:x|mailto:x|/x//y|x//y|/x?u=http://k/|?u=http://k/|x?u=//k|x?u=http://k|/x#//k|x/../y|x/|..|.|../|./|x\r\ny|http://bad host/|" +
		"http://[::1/|//bad host/x|/x y|http://u2:p2@k/|//u2:p2@k/|///x|////x|http:////x|/a%2F../b|#|?|http://|//|x:80|x://y|1x://y|" +
		"a/b://c|/a://c| x|x@y|https:///x|%2e%2e/x|x%3Fy|?\r\nx|#\x00|?\t#z|x?\r\n")
	for _, base := range lines("http://u:p@h.com/a/b/c?q=1#frag|https://h.com|http://h.com/a/b/?q|http://h/a%2541/c|http://h/a%3Fb/c|http://h/a/b%2Fc|http://h/a/../b//c") {
		baseKnown := differences{}
		for reference, reason := range known {
			baseKnown[reference] = reason
		}
		describe := func(u uri) func(string) string {
			return func(reference string) string {
				if err := u.Parse(nil, []byte(base)); err != nil {
					t.Fatal(err)
				}
				u.Update(reference)
				return describeURI(u)
			}
		}
		compare(t, references, baseKnown, describe(new(fasthttp.URI)), describe(new(sluice.URI)))
	}
}

func TestURISetters(t *testing.T) {
	setters := map[string]func(uri, string){
		"scheme": uri.SetScheme, "host": uri.SetHost, "path": uri.SetPath, "query": uri.SetQueryString, "hash": uri.SetHash,
		"username": uri.SetUsername, "password": uri.SetPassword,
	}
	values := append(allBytes()[:256], "", "X", "/x/../y", "//x", "[::1]:80", "a:80")
	for name, set := range setters {
		describe := func(u uri) func(string) string {
			return func(value string) string {
				if err := u.Parse(nil, []byte("http://u:p@h.com/a/b?c=d#e")); err != nil {
					t.Fatal(err)
				}
				set(u, value)
				return describeURI(u)
			}
		}
		compare(t, values, settersKnown(name, values), describe(new(fasthttp.URI)), describe(new(sluice.URI)))
	}
}

// settersKnown lists the values of which fasthttp writes a byte that cannot
// stand in that part; the getters give back the value in both.
func settersKnown(part string, values []string) differences {
	const (
		letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		target  = letters + "-._~!$&'()*+,;=:@/?[]"
	)
	allowed := map[string]string{"scheme": letters + "+-.", "host": letters + "-._~!$&'()*+,;=%:[]", "query": target, "hash": target + "#"}[part]
	known := differences{}
	for _, value := range values {
		for i := range len(value) {
			isRawHostByte := part == "host" && value[i] >= 0x80
			if allowed != "" && !isRawHostByte && strings.IndexByte(allowed, value[i]) < 0 {
				known[value] = "what cannot stand in the part is written percent-encoded"
			}
		}
	}
	return known
}

// TestURIPathRandom compares normalisation over random paths of the characters
// that matter.
func TestURIPathRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{"/", "/", "//", ".", "..", "a", "%2F", "%2e", "%25", "%", "é", "+", "%00"}
	var theirs fasthttp.URI
	var ours sluice.URI
	for range 50000 {
		var path strings.Builder
		for range random.IntN(9) {
			path.WriteString(parts[random.IntN(len(parts))])
		}
		theirs.SetPath(path.String())
		ours.SetPath(path.String())
		if want, got := describeURI(&theirs), describeURI(&ours); want != got {
			t.Fatalf("%q:\nfasthttp: %s\nsluice:   %s", path.String(), want, got)
		}
	}
}

func TestURIQueryArgs(t *testing.T) {
	var theirs fasthttp.URI
	var ours sluice.URI
	check := func(step string) {
		t.Helper()
		if want, got := describeURI(&theirs), describeURI(&ours); want != got {
			t.Errorf("%s:\nfasthttp: %s\nsluice:   %s", step, want, got)
		}
	}
	for _, query := range []string{"c=d", "", "a&b=%7e&&c=%2F", "=", "a=b;c"} {
		theirs.SetQueryString(query)
		ours.SetQueryString(query)
		check("set " + query)
		theirs.QueryArgs()
		ours.QueryArgs()
		check("read " + query)
		theirs.QueryArgs().Add("k v", "1&2")
		ours.QueryArgs().Add("k v", "1&2")
		check("changed " + query)
		var theirCopy fasthttp.URI
		var ourCopy sluice.URI
		theirs.CopyTo(&theirCopy)
		ours.CopyTo(&ourCopy)
		if want, got := describeURI(&theirCopy), describeURI(&ourCopy); want != got {
			t.Errorf("copy:\nfasthttp: %s\nsluice:   %s", want, got)
		}
		theirs.QueryArgs().Reset()
		ours.QueryArgs().Reset()
		check("emptied " + query)
	}
}

// cookie is what both types of Cookie share, but for SameSite.
type cookie interface {
	Parse(string) error
	Key() []byte
	Value() []byte
	Domain() []byte
	Path() []byte
	Expire() time.Time
	MaxAge() int
	Secure() bool
	HTTPOnly() bool
	Partitioned() bool
	String() string
	SetKey(string)
	SetValue(string)
	SetDomain(string)
	SetPath(string)
	SetMaxAge(int)
	SetExpire(time.Time)
	SetSecure(bool)
	SetHTTPOnly(bool)
	SetPartitioned(bool)
}

func describeCookie(c cookie) string {
	return fmt.Sprintf("%q=%q domain %q path %q expire %s max-age %d %v %v %v: %q", c.Key(), c.Value(), c.Domain(), c.Path(),
		c.Expire().Format(time.RFC1123), c.MaxAge(), c.Secure(), c.HTTPOnly(), c.Partitioned(), c.String())
}

func parseCookie(c cookie, s string) string {
	if err := c.Parse(s); err != nil {
		return "error"
	}
	return describeCookie(c)
}

func TestCookieParse(t *testing.T) {
	const (
		expires = "Expires is read as RFC 6265 section 5.1.1 says"
		control = "control characters are refused"
	)
	known := differences{
		"a=b; expires=Tuesday, 10-Nov-09 23:00:00 GMT": expires, "a=b; expires=Tue Nov 10 23:00:00 2009": expires,
		"a=b; expires=Tue, 10 Nov 2009 23:00:00 UTC": expires, "a=b; expires=Tue, 10 Nov 09 23:00:00 GMT": expires,
		"a\x00=b": control, "a=b\x00": control, "a=b\x7f": control, "a=b; domain=\x01": control,
	}
	inputs := lines("a=b; max-age=0|a=b; Max-Age=-1|a=b; max-age=x|a=b; max-age=|a=b; max-age=-x|a=b; max-age=99999999999999999999|" +
		"a=b; max-age=-99999999999999999999|a=b; max-age=1.5|a=b; max-age=+1|a=b; max-age=5; max-age=x|a=b; expires=x|a=b; expires=|" +
		"a=b; expires=Tue, 10 Nov 2009 23:00:00 GMT; expires=x|a=b; Secure=|a=b; secure=x|a=b; HttpOnly=1|a=b; partitioned=x|" +
		"a=b;\tpath=/x|a=b; path=/x\t||a|a=b|=b|=|a=|a=b; c|a=b;c=d| a = b |a=\"b\"|a=\"b|a=\"b c\"|a=b c|a=b,c|a=b\\c|a=b\"c|a=b=c|a b=c|a=é|" +
		"a=b\r\nc|a\nb=c|a=b\tc|; a=b|;a=b|a=b; path=/x|a=b; Path=x|a=b; path=|a=b; path|a=b; path=/x y|a=b; path=/x\x01|a=b; path=/é|" +
		"a=b; path=\"/x\"|a=b; path=/a/../b|a=b; path=/a%20b|a=b; domain=x.com|a=b; domain=.X.com|a=b; domain=|a=b; domain=x y|" +
		"a=b; domain=[::1]|a=b; domain=é.com|a=b; domain=\"x.com\"|a=b; domain=x\"y|a=b; domain=x\\y|a=b; max-age=10|a=b; max-age=010|a=b; unknown=1; path=/|a=b;;path=/|" +
		"a=b; path=/x; path=/y|a=b; domain=x; domain=y|a=b; samesite=lax; samesite=x|a=b; path = /x|a=b ;path=/x ;secure |" +
		"a=b; PATH=/x; DOMAIN=Y|a=b; secure|a=b; httponly; secure|a=b; samesite|a=b; SameSite=Strict|a=b; samesite=none|a=b; samesite=|" +
		"a=b; partitioned|a=b; Partitioned; secure|a=b; expires=Tue, 10 Nov 2009 23:00:00 GMT|a=b; expires=Tue, 10-Nov-2009 23:00:00 GMT|" +
		"a=b; expires=Thu, 01 Jan 1970 00:00:00 GMT|a=b; max-age=5; expires=Tue, 10 Nov 2009 23:00:00 GMT|a(b)=c|a,b=c|a=b;|path=/x|a=b; =x|a=\"\"|a=\"|" +
		"a=b; secure; samesite=none; partitioned; httponly; max-age=1; path=/; domain=d; expires=Tue, 10 Nov 2009 23:00:00 GMT")
	for input := range known {
		inputs = append(inputs, input)
	}
	compare(t, inputs, known,
		func(s string) string { return parseCookie(new(fasthttp.Cookie), s) },
		func(s string) string { return parseCookie(new(sluice.Cookie), s) })
}

func TestCookieSetters(t *testing.T) {
	setters := map[string]func(cookie, string){"key": cookie.SetKey, "value": cookie.SetValue, "domain": cookie.SetDomain, "path": cookie.SetPath}
	values := append(allBytes()[:256], "", "x", "/x", "//x", "/a/../b", "x;y", "/x?y", "/x%20y", "/%2e%2e/x", "*", "\r\n", "/%zz", "%2F", "/a%3Bb", "/a%0D%0Ab", "/a%00b")
	for name, set := range setters {
		known := differences{}
		for _, value := range values {
			for i := range len(value) {
				c := value[i]
				if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c == 0x7f || c == '=' && name == "key" {
					known[value] = "what could end key or field becomes a space"
				}
			}
		}
		if name == "path" {
			known["/a%00b"] = "also if it was percent-encoded"
		}
		describe := func(c cookie) func(string) string {
			return func(value string) string {
				if err := c.Parse("k=v; max-age=5"); err != nil {
					t.Fatal(err)
				}
				set(c, value)
				return describeCookie(c)
			}
		}
		compare(t, values, known, describe(new(fasthttp.Cookie)), describe(new(sluice.Cookie)))
	}
}

func TestCookieAttributes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	times := []time.Time{{}, fasthttp.CookieExpireDelete, time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))}
	if !sluice.CookieExpireDelete.Equal(fasthttp.CookieExpireDelete) || !sluice.CookieExpireUnlimited.Equal(fasthttp.CookieExpireUnlimited) {
		t.Error("CookieExpireDelete or CookieExpireUnlimited differ")
	}
	for range 3000 {
		var theirs fasthttp.Cookie
		var ours sluice.Cookie
		for range 6 {
			op, flag, number := random.IntN(8), random.IntN(2) == 0, random.IntN(8)-2
			for _, c := range []cookie{&theirs, &ours} {
				switch op {
				case 0:
					c.SetKey("k")
				case 1:
					c.SetValue("v")
				case 2:
					c.SetMaxAge(number)
				case 3:
					c.SetExpire(times[(number+2)%3])
				case 4:
					c.SetSecure(flag)
				case 5:
					c.SetHTTPOnly(flag)
				case 6:
					c.SetPartitioned(flag)
				}
			}
			if op == 7 {
				theirs.SetSameSite(fasthttp.CookieSameSite(number))
				ours.SetSameSite(sluice.CookieSameSite(number))
			}
			want, got := describeCookie(&theirs), describeCookie(&ours)
			if want != got || int(theirs.SameSite()) != int(ours.SameSite()) {
				t.Fatalf("fasthttp: %s\nsluice:   %s", want, got)
			}
		}
	}
}
