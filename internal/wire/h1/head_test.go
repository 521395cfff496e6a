package h1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// describe returns a parsed head as text for tables.
func describe(p *HeadParser, t *field.Table) string {
	raw := t.Raw()
	var b strings.Builder
	if p.Role == Requests {
		fmt.Fprintf(&b, "%s %s", p.Method.In(raw), p.Target.In(raw))
	} else {
		fmt.Fprintf(&b, "%d %q", p.StatusCode, p.Reason.In(raw))
	}
	fmt.Fprintf(&b, " 1.%d", p.Minor)
	if p.Has(HasLength) {
		fmt.Fprintf(&b, " length=%d", p.ContentLength)
	}
	for _, f := range []struct {
		flag Flags
		name string
	}{{ChunkedBody, "chunked"}, {ConnectionClose, "close"}, {ConnectionKeepAlive, "keep-alive"},
		{ConnectionUpgrade, "upgrade"}, {ExpectContinue, "expect"}, {AbsoluteForm, "absolute"}, {AuthorityForm, "authority"}} {
		if p.Has(f.flag) {
			b.WriteString(" " + f.name)
		}
	}
	for i := range t.Len() {
		fmt.Fprintf(&b, " [%s: %s]", t.Name(i), t.Value(i))
	}
	return b.String()
}

// parseIn parses s in pieces of at most size bytes.
func parseIn(role Role, s string, size int) (desc string, used int, done bool, err error) {
	p := HeadParser{Limits: DefaultLimits, Role: role}
	var t field.Table
	for used < len(s) && !done && err == nil {
		end := min(used+size, len(s))
		var n int
		n, done, err = p.Parse(&t, []byte(s[used:end]))
		if err != nil && (n != 0 || done) {
			return "", used, done, fmt.Errorf("%d bytes are used, done %v, with the error %v", n, done, err)
		}
		used += n
	}
	if done {
		desc = describe(&p, &t)
	}
	return desc, used, done, err
}

const hostLine = "Host: x\r\n"

func TestRequestHeads(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / 1.1 [Host: x]"},
		{"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / 1.1 [Host: x]"},
		{"GET / HTTP/1.0\r\n\r\n", "GET / 1.0"},
		{"GET / HTTP/1.7\r\nHost: x\r\n\r\n", "GET / 1.1 [Host: x]"},
		{"GET /a?b[]=c|d HTTP/1.1\r\nhost:x:80\r\nx-y:\t a\tb  \r\nX-Y:\r\n\r\n", "GET /a?b[]=c|d 1.1 [Host: x:80] [X-Y: a\tb] [X-Y: ]"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "POST / 1.1 length=5 [Host: x] [Content-Length: 5]"},
		{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:  ChunKed\t\r\nExpect: 100-Continue\r\n\r\n", "POST / 1.1 chunked expect [Host: x] [Transfer-Encoding: ChunKed] [Expect: 100-Continue]"},
		{"GET / HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive , x,CLOSE\r\nConnection: upgrade\r\n\r\n", "GET / 1.1 close keep-alive upgrade [Host: x] [Connection: Keep-Alive , x,CLOSE] [Connection: upgrade]"},
		{"GET http://a:1/p HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://a:1/p 1.1 absolute [Host: x]"},
		{"CONNECT a:443 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT a:443 1.1 authority [Host: x]"},
		{"OPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "OPTIONS * 1.1 [Host: [::1]:8080]"},
		{"GET / HTTP/1.0\r\nExpect: nonsense\r\n\r\n", "GET / 1.0 [Expect: nonsense]"},
		{"GET / HTTP/1.1\r\nHost: x\r\nX: \x80\xff\r\n\r\n", "GET / 1.1 [Host: x] [X: \x80\xff]"},
	} {
		for _, size := range []int{1, 2, 3, 7, len(c.in) + 9} {
			got, used, done, err := parseIn(Requests, c.in+"rest of it", size)
			if err != nil || !done || got != c.want {
				t.Errorf("%q in pieces of %d:\n got %s (done=%v, %v)\nwant %s", c.in, size, got, done, err, c.want)
			}
			if used != len(c.in) {
				t.Errorf("%q in pieces of %d: used %d, want %d", c.in, size, used, len(c.in))
			}
		}
	}
}

// long: one table
func TestRequestErrors(t *testing.T) {
	line := "GET / HTTP/1.1\r\n" + hostLine
	for _, c := range []struct {
		in   string
		want error
	}{
		{"GET / HTTP/1.1\nHost: x\n\n", ErrBareLF},
		{"\nGET / HTTP/1.1\r\n", ErrBareLF},
		{"GET / HTTP/1.1\rHost: x\r\r", ErrBareCR},
		{" GET / HTTP/1.1\r\n", ErrMethod},
		{"G(T / HTTP/1.1\r\n", ErrMethod},
		{" / HTTP/1.1\r\n", ErrMethod},
		{"GET\r\n", ErrMethod},
		{"GET /\r\n\r\n", ErrVersion},
		{"GET  / HTTP/1.1\r\n", ErrTarget},
		{"GET / HTTP/1.1 \r\n", ErrVersion},
		{"GET / http/1.1\r\n", ErrVersion},
		{"GET / HTTP/2.0\r\n", ErrMajorVersion},
		{"GET /#a HTTP/1.1\r\n", ErrTarget},
		{"GET /a\x00b HTTP/1.1\r\n", ErrTarget},
		{"GET /\xc3\xa9# HTTP/1.1\r\n", ErrTarget},
		{"GET /%zz HTTP/1.1\r\n", ErrTarget},
		{"GET /%2 HTTP/1.1\r\n", ErrTarget},
		{"GET a HTTP/1.1\r\n", ErrTarget},
		{"GET * HTTP/1.1\r\n", ErrTargetForm},
		{"CONNECT / HTTP/1.1\r\n", ErrTargetForm},
		{"CONNECT a HTTP/1.1\r\n", ErrTargetForm},
		{"GET ftp://a/ HTTP/1.1\r\n", ErrMisdirected},
		{"GET http:///a HTTP/1.1\r\n", ErrHost},
		{"GET http://u@a/ HTTP/1.1\r\n", ErrHost},
		{line + "X Y: a\r\n", ErrFieldName},
		{line + "X : a\r\n", ErrFieldName},
		{line + ": a\r\n", ErrFieldName},
		{line + "abc\r\n", ErrFieldLine},
		{line + " folded\r\n", ErrFolding},
		{line + "\tfolded\r\n", ErrFolding},
		{line + "X: a\nY: b\r\n", ErrBareLF},
		{line + "X: a\rb\r\n", ErrBareCR},
		{line + "X: a\rb\nY: c\r\n", ErrBareCR},
		{line + "X: a\r\r\nY: c\r\n", ErrBareCR},
		{line + "X: a\r\nY: c\nZ: d\r\n", ErrBareLF},
		{line + "X: a\x00b\r\n", ErrControl},
		{line + "X: 12345678\x7f2345678\r\n", ErrControl},
		{line + "\n", ErrBareLF},
		{line + "\rX", ErrBareCR},
		{"GET / HTTP/1.1\r\n\r\n", ErrHostMissing},
		{line + hostLine + "\r\n", ErrHostDuplicate},
		{line + "Authorization: a\r\nX: b\r\nAUTHORIZATION: a\r\n\r\n", ErrTwoCredentials},
		{"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", ErrHost},
		{"GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n", ErrHost},
		{"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", ErrHost},
		{line + "Content-Length: +1\r\n", ErrContentLength},
		{line + "Content-Length: \r\n", ErrContentLength},
		{line + "Content-Length: 5,\r\n", ErrContentLength},
		{line + "Content-Length: 9223372036854775808\r\n", ErrContentLength},
		{line + "Content-Length: 5\r\nContent-Length: 6\r\n", ErrContentLengthConflict},
		{line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", ErrLengthAndCoding},
		{line + "Transfer-Encoding: identity\r\n\r\n", ErrTransferCoding},
		{line + "Transfer-Encoding: chunked, chunked\r\n\r\n", ErrTransferCoding},
		{line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", ErrTransferCoding},
		{line + "Transfer-Encoding: \r\n\r\n", ErrTransferCoding},
		{line + "Transfer-Encoding: chunked;a=b\r\n\r\n", ErrTransferCoding},
		{line + "Transfer-Encoding: \x0bchunked\r\n\r\n", ErrControl},
		{line + "Transfer-Encoding: gzip, chunked\r\n\r\n", ErrTransferCodingUnknown},
		{"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", ErrTransferCodingHTTP10},
		{line + "Expect: 200-ok\r\n", ErrExpectation},
		{"GET /" + strings.Repeat("a", 9000), ErrLineTooLong},
		{"GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\n", ErrLineTooLong},
		{line + "X: " + strings.Repeat("a", 70000), ErrHeadTooLarge},
		{line + strings.Repeat("X: a\r\n", 201), ErrTooManyFields},
	} {
		for _, size := range []int{1, 5, len(c.in)} {
			_, _, done, err := parseIn(Requests, c.in, size)
			if !errors.Is(err, c.want) {
				t.Errorf("%.80q in pieces of %d: got %v (done=%v), want %v", c.in, size, err, done, c.want)
			}
		}
	}
}

func TestResponseHeads(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", `200 "OK" 1.1 [A: b]`},
		{"HTTP/1.0 404\r\n\r\n", `404 "" 1.0`},
		{"HTTP/1.1 204 \r\nA: b\r\n c\r\n\t d\r\nE: f\r\n\r\n", "204 \"\" 1.1 [A: b   c  \t d] [E: f]"},
		{"HTTP/1.1 200 Not Bad At All\r\nContent-Length: 3\r\n\r\n", `200 "Not Bad At All" 1.1 length=3 [Content-Length: 3]`},
	} {
		for _, size := range []int{1, 2, 3, len(c.in)} {
			got, used, done, err := parseIn(Responses, c.in, size)
			if err != nil || !done || got != c.want || used != len(c.in) {
				t.Errorf("%q in pieces of %d: got %s (used %d, done=%v, %v), want %s", c.in, size, got, used, done, err, c.want)
			}
		}
	}
	for _, in := range []string{"HTTP/1.1 20 OK\r\n", "HTTP/1.1 200OK\r\n", "HTTP/1.1 099 x\r\n", "ICY 200 OK and more\r\n"} {
		if _, _, _, err := parseIn(Responses, in, len(in)); err == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	in := []byte("GET /hello?a=b HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\nAccept: */*\r\nX-Own: 1\r\n\r\n")
	p := HeadParser{Limits: DefaultLimits}
	var tab field.Table
	if n := testing.AllocsPerRun(100, func() {
		p.Reset()
		tab.Reset()
		if _, done, err := p.Parse(&tab, in); !done || err != nil {
			t.Fatal(done, err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

var browserHead = "GET /some/page.html?with=query&and=more HTTP/1.1\r\nHost: www.example.org\r\n" +
	"Connection: keep-alive\r\nCache-Control: max-age=0\r\nUpgrade-Insecure-Requests: 1\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nReferer: https://www.example.org/start\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n"

const (
	shortHead = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
	usualHead = "GET /articles?page=2 HTTP/1.1\r\nHost: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\r\n"
	proxyHead = "POST /api/v1/items/8213 HTTP/1.1\r\nhost: api.example.com\r\nx-forwarded-for: 203.0.113.77\r\n" +
		"x-forwarded-proto: https\r\nx-request-id: 6f1c2b0de4a94a54\r\nuser-agent: node\r\naccept: */*\r\n" +
		"content-type: application/json\r\ncontent-length: 137\r\n\r\n"
)

// The same head again and again.
func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, in string }{
		{"Short", shortHead}, {"Usual", usualHead}, {"Browser", browserHead}, {"Proxy", proxyHead},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkParse(b, c.in) })
	}
}

// Heads as one client sends them: the paths differ. In "Path" nothing else does, in
// "Field" the last field does, too, and in "Length" also that field's length. In
// "Clients" they are of clients that have nothing in common.
func BenchmarkParseVaried(b *testing.B) {
	const referer = "Referer: http://www.example.com/"
	for _, c := range []struct {
		name string
		head func(i int) string
	}{
		{"Path", func(int) string { return usualHead + referer }},
		{"Field", func(i int) string { return usualHead + referer + fmt.Sprintf("%x", i) }},
		{"Length", func(i int) string { return usualHead + referer + strings.Repeat("a", i) }},
		{"Clients", func(i int) string {
			return strings.Replace(usualHead, "www.example", fmt.Sprintf("www%x.example", i), 1) + referer
		}},
	} {
		var heads []string
		for i := range 16 {
			head := strings.Replace(c.head(i), "\r\n\r\n", "\r\n", 1) + "\r\n\r\n"
			heads = append(heads, strings.Replace(head, "page=2", fmt.Sprintf("page=%d", 1<<i), 1))
		}
		b.Run(c.name, func(b *testing.B) { benchmarkParse(b, heads...) })
	}
}

// benchmarkParse parses the heads in turns.
func benchmarkParse(b *testing.B, heads ...string) {
	var ins [][]byte
	for _, h := range heads {
		ins = append(ins, []byte(h))
	}
	p := HeadParser{Limits: DefaultLimits, Opening: new(Opening)}
	var tab field.Table
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Reset()
		tab.Reset()
		if _, done, err := p.Parse(&tab, ins[i%len(ins)]); !done || err != nil {
			b.Fatal(done, err)
		}
	}
}
