package client_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// ending says what a server does behind its answer.
type ending int

const (
	stays  ending = iota // it waits for the next request
	closes               // it closes the connection
	resets               // it does so in disorder
)

// A rawAnswer is an answer and what a client must make of it.
type rawAnswer struct {
	name   string
	method string // "" is GET
	send   string
	end    ending

	status int    // 0: an error
	body   string // of the response
	reuses reuse  // of the connection, by the next request
}

// reuse says whether a connection is used for another request.
type reuse int

const (
	mustNot reuse = iota
	must
	may
)

// evil is an answer that nobody asked for.
const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"

// answer200 is an answer with head lines and what is behind the head.
func answer200(body string, lines ...string) string {
	head := "HTTP/1.1 200 OK\r\n"
	for _, l := range lines {
		head += l + "\r\n"
	}
	return head + "\r\n" + body
}

// hello is a good answer with a further line.
func hello(lines ...string) string {
	return answer200("hello", append(lines, "Content-Length: 5")...)
}

// chunks is an answer in chunks.
func chunks(body string) string { return answer200(body, "Transfer-Encoding: chunked") }

// runAnswers gives each answer to a client, as often as that asks, and checks
// what the client makes of it, and of the request after it.
func runAnswers(t *testing.T, cases []rawAnswer) {
	t.Helper()
	for _, c := range cases {
		for _, mode := range []string{"buffered", "streamed"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				c.run(t, &sluice.Client{StreamResponseBody: mode == "streamed"})
			})
		}
	}
}

func (a rawAnswer) run(t *testing.T, client *sluice.Client) {
	sent := make(chan struct{}, 16)
	s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
		if r.path == "/next" {
			c.send(answer200("next", "Content-Length: 4"))
			return true
		}
		c.send(a.send)
		switch a.end {
		case closes:
			sent <- struct{}{}
			c.halfClose()
			return false
		case resets:
			c.reset()
			return false
		}
		sent <- struct{}{}
		return true
	})
	method := a.method
	if method == "" {
		method = "GET"
	}
	defer client.CloseIdleConnections()
	got := do(client, method, s.url("/first"), "")
	switch {
	case a.status == 0 && got.err == nil:
		t.Errorf("status %d, body %.60q, want an error", got.status, got.body)
	case a.status == 0 && errors.Is(got.err, sluice.ErrTimeout):
		t.Errorf("waited for more, want an error at once")
	case a.status != 0 && (got.err != nil || got.status != a.status || got.body != a.body):
		t.Errorf("%d %.60q (%v), want %d %.60q", got.status, got.body, got.err, a.status, a.body)
	}
	if n := s.attempts("/first"); n > sluice.DefaultMaxIdemponentCallAttempts {
		t.Errorf("%d attempts", n)
	}
	if a.end != resets {
		harness.Receive(t, sent)
	}
	if next := do(client, "GET", s.url("/next"), ""); next.err != nil || next.body != "next" {
		t.Errorf("the next request: %d %q (%v)", next.status, next.body, next.err)
	}
	all := s.requests()
	isReused := all[len(all)-1].conn == all[len(all)-2].conn
	if a.reuses != may && isReused != (a.reuses == must) {
		t.Errorf("the connection is used again: %v", isReused)
	}
}

func TestClientStatusLines(t *testing.T) {
	const rest = "\r\nContent-Length: 5\r\n\r\nhello"
	var cases []rawAnswer
	for _, line := range []string{
		"HTTP/1.1\t200 OK", "HTTP/1.1 \t200 OK", "\nHTTP/1.1 200 OK", strings.Repeat("\r\n", 5) + "HTTP/1.1 200 OK", " HTTP/1.1 200 OK", "http/1.1 200 OK", "HTTP/2.0 200 OK", "HTTP/2 200 OK",
		"HTTP/0.9 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 +20 OK", "HTTP/1.1 2x0 OK", "HTTP/1.1 200OK", "HTTP/1.1 200\tOK",
		"HTTP/1.1 0x8 OK", "HTTP/1.1 000 OK", "HTTP/1.1 ２00 OK", "HTTP/1.1200 OK", "HTTP/1.1 200.1 OK", "HTTP/1.1 -20 OK",
		"HTTP/ 1.1 200 OK", "HTTP/1.10 200 OK", "HTTP/01.1 200 OK", "HTTP/+1.1 200 OK", "HTTP/1,1 200 OK", "HTTP 200 OK",
		"HTTP/1.1 ", "HTTP/1.1", "HTTP/", "200 OK", "ICY 200 OK", "HTTPS/1.1 200 OK", "HTTP/1.1/200 OK", "HTTP/1.1 OK 200",
		"HTTP/1.1 200 O\x00K", "HTTP/1.1 200 O\rK", "HTTP/1.1 200 O\x7fK", "HTTP/1.1 200\x0b OK", "GET / HTTP/1.1",
		"{\"status\":200}", "SSH-2.0-OpenSSH_9.6", "220 mail ESMTP", "\xff\xff\xff\xff", strings.Repeat("H", 100<<10),
		"HTTP/1.1 200 " + strings.Repeat("K", 100<<10),
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("%.30q", line), send: line + rest, end: closes})
	}
	for _, line := range []string{
		"HTTP/1.1  200 OK", "\r\nHTTP/1.1   200", strings.Repeat("\r\n", 4) + "HTTP/1.1 200 OK",
		"HTTP/1.1 103 Early Hints\r\n\r\n\r\nHTTP/1.1 200 OK",
		"HTTP/1.1 200 ", "HTTP/1.1 200 OK OK  OK", "HTTP/1.1 200 \t", "HTTP/1.1 200 Schön", "HTTP/1.1 200 :", "HTTP/1.1 200 200",
		"HTTP/1.1 200 " + strings.Repeat("K", 1<<10),
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("good %.30q", line), send: line + rest, status: 200, body: "hello", reuses: must})
	}
	for _, status := range []int{201, 206, 226, 299, 300, 399, 400, 418, 451, 499, 500, 511, 599} {
		cases = append(cases, rawAnswer{name: fmt.Sprint(status), send: fmt.Sprintf("HTTP/1.1 %d X%s", status, rest), status: status, body: "hello", reuses: must})
	}
	runAnswers(t, cases)
}

func TestClientHeadEnds(t *testing.T) {
	runAnswers(t, []rawAnswer{
		{name: "nothing", send: "", end: closes},
		{name: "reset", send: "", end: resets},
		{name: "half a status line", send: "HTTP/1.1 2", end: closes},
		{name: "a status line", send: "HTTP/1.1 200 OK\r\n", end: closes},
		{name: "half a field", send: "HTTP/1.1 200 OK\r\nContent-Le", end: closes},
		{name: "no empty line", send: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", end: closes},
		{name: "CR of the empty line", send: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r", end: closes},
		{name: "half a field, reset", send: "HTTP/1.1 200 OK\r\nContent-Le", end: resets},
		{name: "bare LF", send: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"},
		{name: "bare LF behind a field", send: "HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello"},
		{name: "bare CR", send: "HTTP/1.1 200 OK\rContent-Length: 5\r\rhello"},
		{name: "CR CR LF", send: "HTTP/1.1 200 OK\r\r\nContent-Length: 5\r\n\r\nhello"},
		{name: "a megabyte of fields", send: answer200("hello", strings.Repeat("X-A: "+strings.Repeat("v", 1000)+"\r\n", 1<<10)+"Content-Length: 5")},
		{name: "a field of a megabyte", send: hello("X-A: " + strings.Repeat("v", 1<<20))},
		{name: "a field without an end", send: "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("v", 4<<20)},
		{name: "30 KB of fields", send: answer200("hello", strings.Repeat("X-A: "+strings.Repeat("v", 1000)+"\r\n", 30)+"Content-Length: 5"), status: 200, body: "hello", reuses: must},
		{name: "100 fields", send: answer200("hello", strings.Repeat("X-A: v\r\n", 100)+"Content-Length: 5"), status: 200, body: "hello", reuses: must},
	})
}

func TestClientFields(t *testing.T) {
	var cases []rawAnswer
	for _, line := range []string{
		"X A: b", ": b", "nocolon", "X\x00A: b", "X(A): b", "X\x7fA: b", "X-Ä: b", "X\tA: b", "\"X\": b", "X/A: b", "X[]: b",
		"X-A: b\x00", "X-A: \x01b", "X-A: b\x7f", "X-A: b\rc", "X-A: b\nc: d", "X-A: b\n",
	} {
		cases = append(cases,
			rawAnswer{name: fmt.Sprintf("%q", line), send: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + line + "\r\n\r\nhello", end: closes})
	}
	for _, line := range []string{
		"X-A:b", "X-A:\t b \t", "X-A:", "X-A: ", "x-a: B", "!#$%&'*+-.^_`|~: b", "0: b", "X-A: \xff\x80", "X-A: b\r\n c", "X-A: b\r\n\tc\r\n  d",
		"X-A:\r\n b", "Connection: keep-alive", "Connection: ", "Connection: x, y", "Date: nonsense", "Content-Type: nonsense",
		"Set-Cookie: nonsense", "Set-Cookie: ;;;=", "Server: a\tb", "Content-Encoding: nonsense", "Trailer: X-T", "Upgrade: h2c",
		"Connection: Upgrade\r\nUpgrade: h2c", "Keep-Alive: timeout=5, max=100", "Location: http://[", "Status: 500", "X-A: b: c",
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("good %q", line), send: hello(line), status: 200, body: "hello", reuses: must})
	}
	for _, line := range []string{"Connection: close", "connection: CLOSE", "Connection: x, close", "Connection: close, keep-alive", "Connection: x\r\nConnection: close"} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("%q", line), send: hello(line), status: 200, body: "hello"})
	}
	runAnswers(t, cases)
}

func TestClientContentLengths(t *testing.T) {
	var cases []rawAnswer
	for _, value := range []string{
		"", "+5", "-5", "-0", "5.0", "5.", "0x5", "5e0", "5 5", "5,6", "5, 6", "5,,5x", "5;q=1", "\"5\"", "５", "1_0", "5a", "a5", "0b101",
		"18446744073709551621", "18446744073709551616", "9223372036854775808", "99999999999999999999999999", "5\x00", "5\x0b", "5/5", "five",
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("%q", value), send: answer200("hello", "Content-Length: "+value), end: closes})
	}
	good := rawAnswer{status: 200, body: "hello", reuses: must}
	for _, lines := range []string{
		"Content-Length:5", "Content-Length: \t5 \t", "CONTENT-LENGTH: 5", "Content-Length: 05", "Content-Length: 0000000000000000000000000000005",
		"Content-Length: 5, 5", "Content-Length: 5,5", "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\ncontent-length: 5",
	} {
		c := good
		c.name, c.send = fmt.Sprintf("good %q", lines), answer200("hello", lines)
		cases = append(cases, c)
	}
	cases = append(cases,
		rawAnswer{name: "two that differ", send: answer200("hello!", "Content-Length: 5", "X: y", "content-length: 6"), end: closes},
		rawAnswer{name: "two, one empty", send: answer200("hello", "Content-Length: 5", "Content-Length: "), end: closes},
		rawAnswer{name: "less than announced", send: answer200("hell", "Content-Length: 5"), end: closes},
		rawAnswer{name: "less than announced, reset", send: answer200("hell", "Content-Length: 5"), end: resets},
		rawAnswer{name: "nothing of what is announced", send: answer200("", "Content-Length: 5"), end: closes},
		rawAnswer{name: "much less than announced", send: answer200("hello", "Content-Length: 9223372036854775807"), end: closes},
		rawAnswer{name: "more than announced", send: hello() + "!", status: 200, body: "hello"},
		rawAnswer{name: "an answer behind", send: hello() + evil, status: 200, body: "hello"},
		rawAnswer{name: "an empty line behind", send: hello() + "\r\n", status: 200, body: "hello"},
		rawAnswer{name: "an answer behind nothing", send: answer200("", "Content-Length: 0") + evil, status: 200},
		rawAnswer{name: "zero", send: answer200("", "Content-Length: 0"), status: 200, reuses: must},
		rawAnswer{name: "the end behind", send: hello(), end: closes, status: 200, body: "hello"},
		rawAnswer{name: "a name with an underscore", send: answer200("hello", "Content_Length: 3"), end: closes, status: 200, body: "hello"},
	)
	runAnswers(t, cases)
}

func TestClientBodiesUntilTheEnd(t *testing.T) {
	big := strings.Repeat("z", 1<<20)
	runAnswers(t, []rawAnswer{
		{name: "some", send: answer200("hello"), end: closes, status: 200, body: "hello"},
		{name: "nothing", send: answer200(""), end: closes, status: 200},
		{name: "much", send: answer200(big), end: closes, status: 200, body: big},
		{name: "reset", send: answer200(big), end: resets},
		{name: "keep-alive", send: answer200("hello", "Connection: keep-alive"), end: closes, status: 200, body: "hello"},
		{name: "an answer", send: answer200(evil), end: closes, status: 200, body: evil},
		{name: "HTTP/1.0", send: "HTTP/1.0 200 OK\r\n\r\nhello", end: closes, status: 200, body: "hello"},
		{name: "HTTP/1.0 with a length", send: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		{name: "HTTP/1.0 kept alive", send: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", reuses: must},
		{name: "HTTP/1.0 kept alive in other case", send: "HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", reuses: may},
	})
}

func TestClientTransferEncodings(t *testing.T) {
	const body = "5\r\nhello\r\n0\r\n\r\n"
	var cases []rawAnswer
	for _, value := range []string{
		"chunked, chunked", "gzip, chunked", "identity", "chunked, identity", "xchunked", "\"chunked\"", "chunked;x=1", "chunked\x0b", "\x0bchunked",
		"chunked chunked", "chunke", "chunked, gzip", "identity, chunked", "x", "chunked\r\nTransfer-Encoding: chunked",
		"gzip\r\nTransfer-Encoding: chunked", "chunked\r\nTransfer-Encoding: identity",
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("%q", value), send: answer200(body, "Transfer-Encoding: "+value), end: closes})
	}
	cases = append(cases, rawAnswer{name: "HTTP/1.0", send: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body, end: closes})
	for _, line := range []string{"Transfer-Encoding:chunked", "TRANSFER-ENCODING: CHUNKED", "Transfer-Encoding: \tchunked\t "} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("good %q", line), send: answer200(body, line), status: 200, body: "hello", reuses: must})
	}
	runAnswers(t, cases)
}

func TestClientChunks(t *testing.T) {
	var cases []rawAnswer
	for _, body := range []string{
		"", "5", "5\r\n", "5\r\nhello", "5\r\nhello\r", "5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\n\r",
		"+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "5_0\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "5\r\nhello\n0\r\n\r\n",
		"5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\r\nhello\r\n0\r\n\r\n", "5\r\nhello!\r\n0\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n",
		"6\r\nhello\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", "8000000000000000\r\nhello\r\n0\r\n\r\n",
		"7FFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", "10000000000000005\r\nhello\r\n0\r\n\r\n", "5,5\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n",
		"5h\r\nhello\r\n0\r\n\r\n", "５\r\nhello\r\n0\r\n\r\n", "5\x00\r\nhello\r\n0\r\n\r\n", "\r\n5\r\nhello\r\n0\r\n\r\n", "five\r\nhello\r\n0\r\n\r\n",
		"5;a\nb\r\nhello\r\n0\r\n\r\n", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", "5;a\x00\r\nhello\r\n0\r\n\r\n", "5;a\rb\r\nhello\r\n0\r\n\r\n",
		"5;" + strings.Repeat("a", 4<<20), strings.Repeat("0", 4<<20), strings.Repeat("1;"+strings.Repeat("a", 1000)+"\r\nz\r\n", 4000),
		"5\r\nhello\r\n0\r\nnocolon\r\n\r\n", "5\r\nhello\r\n0\r\nX A: b\r\n\r\n", "5\r\nhello\r\n0\r\n: b\r\n\r\n", "5\r\nhello\r\n0\r\nX: a\nb\r\n\r\n",
		"5\r\nhello\r\n0\r\nX: a\x00\r\n\r\n", "5\r\nhello\r\n0\r\nX: " + strings.Repeat("v", 4<<20), "5\r\nhello\r\n0\r\n" + strings.Repeat("X: v\r\n", 500_000),
		"5\r\nhello\r\n0\r\nX: y\r\n", "5\r\nhello\r\n00\r\nX: y",
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("%d %.40q", len(body), body), send: chunks(body), end: closes})
	}
	for _, body := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\n\r\n", "5;a\r\nhello\r\n0;b\r\n\r\n", "5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n",
		"5;a=b;c=d\r\nhello\r\n0\r\n\r\n", "05\r\nhello\r\n000\r\n\r\n", "1\r\nh\r\n1\r\ne\r\n1\r\nl\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\n",
		"5\r\nhello\r\n0\r\nX-T: a\r\n\r\n", "5\r\nhello\r\n0\r\nX-T: a\r\nY-T:\r\n\r\n", "5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n",
		"5\r\nhello\r\n0\r\nTransfer-Encoding: gzip\r\nHost: x\r\n\r\n", "5\r\nhello\r\n0\r\nConnection: close\r\n\r\n",
	} {
		cases = append(cases, rawAnswer{name: fmt.Sprintf("good %.60q", body), send: chunks(body), status: 200, body: "hello", reuses: must})
	}
	big := strings.Repeat("z", 0xfffff)
	cases = append(cases,
		rawAnswer{name: "a big one", send: chunks("fFfFf\r\n" + big + "\r\n0\r\n\r\n"), status: 200, body: big, reuses: must},
		rawAnswer{name: "reset", send: chunks("5\r\nhello\r\n"), end: resets},
		rawAnswer{name: "many small ones", send: chunks(strings.Repeat("1\r\nz\r\n", 20_000) + "0\r\n\r\n"), status: 200, body: big[:20_000], reuses: must},
		rawAnswer{name: "none", send: chunks("0\r\n\r\n"), status: 200, reuses: must},
		rawAnswer{name: "an answer behind", send: chunks("5\r\nhello\r\n0\r\n\r\n" + evil), status: 200, body: "hello"},
		rawAnswer{name: "a chunk behind", send: chunks("5\r\nhello\r\n0\r\n\r\n5\r\nworld\r\n0\r\n\r\n"), status: 200, body: "hello"},
		rawAnswer{name: "an answer behind trailers", send: chunks("5\r\nhello\r\n0\r\nX: y\r\n\r\n" + evil), status: 200, body: "hello"},
	)
	runAnswers(t, cases)
}

func TestClientAnswersWithoutBodies(t *testing.T) {
	var cases []rawAnswer
	for _, a := range []rawAnswer{
		{name: "HEAD", method: "HEAD", send: "HTTP/1.1 200 OK\r\n", status: 200},
		{name: "HEAD of an error", method: "HEAD", send: "HTTP/1.1 404 Not Found\r\n", status: 404},
		{name: "204", send: "HTTP/1.1 204 No Content\r\n", status: 204},
		{name: "304", send: "HTTP/1.1 304 Not Modified\r\n", status: 304},
	} {
		for _, lines := range []string{"", "Content-Length: 5\r\n", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 4000000000\r\n"} {
			c := a
			c.name, c.send, c.reuses = fmt.Sprintf("%s %q", a.name, lines), a.send+lines+"\r\n", must
			cases = append(cases, c)
			c.name, c.send, c.reuses = c.name+" with a body", c.send+"hello", mustNot
			cases = append(cases, c)
			c.name, c.send = c.name+" that is an answer", a.send+lines+"\r\n"+evil
			cases = append(cases, c)
		}
	}
	runAnswers(t, cases)
}

func TestClientInterimAnswers(t *testing.T) {
	const interim = "HTTP/1.1 100 Continue\r\n\r\n"
	good := func(name, before string) rawAnswer {
		return rawAnswer{name: name, send: before + hello(), status: 200, body: "hello", reuses: must}
	}
	runAnswers(t, []rawAnswer{
		good("100 that nobody asked for", interim),
		good("three of them", strings.Repeat(interim, 3)),
		good("102", "HTTP/1.1 102 Processing\r\n\r\n"),
		good("103 with fields", "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"),
		good("103 with a length", "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"),
		good("103 in chunks", "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n"),
		good("103 that closes", "HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n"),
		good("199", "HTTP/1.1 199 What\r\n\r\n"),
		good("100 without reason", "HTTP/1.1 100\r\n\r\n"),
		{name: "a flood", send: strings.Repeat(interim, 10_000), end: closes},
		{name: "a flood and an answer", send: strings.Repeat(interim, 10_000) + hello(), end: closes},
		{name: "a flood of big ones", send: strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("v", 8000)+"\r\n\r\n", 300), end: closes},
		{name: "then the end", send: interim, end: closes},
		{name: "then a reset", send: interim, end: resets},
		{name: "then nonsense", send: interim + "nonsense\r\n\r\n", end: closes},
		{name: "behind the answer", send: hello() + interim, status: 200, body: "hello"},
		{name: "101 that nobody asked for", send: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + evil, status: 101},
		{name: "HEAD", method: "HEAD", send: interim + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", status: 200, reuses: must},
	})
}

// TestClientInterimFieldsAreNotTheAnswers: what 103 says is not said by the
// final response.
func TestClientInterimFieldsAreNotTheAnswers(t *testing.T) {
	s := newRawServer(t, func(c *rawConn, _ rawRequest) bool {
		c.send("HTTP/1.1 103 Early Hints\r\nX-Hint: a\r\nSet-Cookie: a=b\r\nContent-Type: x/y\r\n\r\n" + hello())
		return true
	})
	var client sluice.Client
	got := do(&client, "GET", s.url("/"), "")
	for _, name := range []string{"X-Hint", "Set-Cookie"} {
		if v, ok := got.header[name]; ok {
			t.Errorf("%s is %q", name, v)
		}
	}
	if got.err != nil || strings.Contains(got.header["Content-Type"], "x/y") {
		t.Errorf("%v, Content-Type %q", got.err, got.header["Content-Type"])
	}
}

// TestClientFoldedField: the lines of a folded value are joined by spaces (RFC
// 9112 section 5.2).
func TestClientFoldedField(t *testing.T) {
	s := newRawServer(t, func(c *rawConn, _ rawRequest) bool {
		c.send(hello("X-A: b\r\n c\r\n\t d", "X-B: e"))
		return true
	})
	var client sluice.Client
	got := do(&client, "GET", s.url("/"), "")
	if want := "b c d"; strings.Join(strings.Fields(got.header["X-A"]), " ") != want || strings.ContainsAny(got.header["X-A"], "\r\n") {
		t.Errorf("X-A is %q (%v), want %q", got.header["X-A"], got.err, want)
	}
	if got.header["X-B"] != "e" {
		t.Errorf("X-B is %q", got.header["X-B"])
	}
}

// TestClientDrips: an answer that comes byte by byte is read, and one that never
// comes to an end does not hold the client longer than it may take.
func TestClientDrips(t *testing.T) {
	ended := make(chan struct{})
	s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
		switch r.path {
		case "/endless":
			c.send("HTTP/1.1 200 OK\r\nX-A: ")
			for {
				if _, err := c.Write([]byte("v")); err != nil {
					close(ended)
					return false
				}
				time.Sleep(time.Millisecond) // the rate of the drip
			}
		case "/silent":
			return true
		}
		for _, b := range []byte(chunks("5;ext=\"x\"\r\nhello\r\n0\r\nX-T: y\r\n\r\n")) {
			c.send(string(b))
		}
		return true
	})
	var client sluice.Client
	if got := do(&client, "GET", s.url("/"), ""); got.err != nil || got.body != "hello" {
		t.Errorf("%q (%v)", got.body, got.err)
	}
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	for _, path := range []string{"/endless", "/silent"} {
		req.SetRequestURI(s.url(path))
		if err := client.DoTimeout(req, nil, 500*time.Millisecond); !errors.Is(err, sluice.ErrTimeout) {
			t.Errorf("%s: %v, want ErrTimeout", path, err)
		}
		if n := s.attempts(path); n != 1 {
			t.Errorf("%s: %d attempts", path, n)
		}
	}
	harness.Receive(t, ended) // the connection was closed
}

// TestClientInterimsOfUpload: interim responses come while the body is sent. They are bounded, and a
// request is not sent again after them.
func TestClientInterimsOfUpload(t *testing.T) {
	for name, tc := range map[string]struct {
		interims int
		final    string
		seen     int
		want     error
	}{
		"answered": {3, hello(), 3, nil},
		"ended":    {3, "", 3, io.ErrUnexpectedEOF},
		"many":     {1000, hello(), 100, textError("too many informational responses")},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan bool, 10)
			s := newRawServer(t, func(c *rawConn, _ rawRequest) bool {
				requests <- true
				c.send(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", tc.interims) + tc.final)
				_ = c.Conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c.br)
				return false
			})
			body, more := io.Pipe()
			req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
			req.SetRequestURI(s.url(lazyPath))
			req.Header.SetMethod("PUT")
			req.SetBodyStream(body, -1)
			seen := 0
			resp.OnInterim = func(h *sluice.ResponseHeader) {
				if seen++; h.StatusCode() != 102 {
					t.Errorf("status %d", h.StatusCode())
				}
				if seen == tc.interims {
					more.Close()
				}
			}
			client := sluice.Client{ReadTimeout: 5 * time.Second}
			err := client.Do(req, resp)
			if seen != tc.seen || !isError(err, tc.want) || len(requests) != 1 {
				t.Errorf("%d interim responses, %v, %d requests", seen, err, len(requests))
			}
		})
	}
}

// TestClientEndDuringUpload: a server that ends the connection while the body pauses has not let the
// time run out.
func TestClientEndDuringUpload(t *testing.T) {
	for sent, want := range map[string]error{"": sluice.ErrConnectionClosed, "HTTP/1.1 200": io.ErrUnexpectedEOF, "HTTP/1.1 102 P\r\n\r\n": io.ErrUnexpectedEOF} {
		s := newRawServer(t, func(c *rawConn, _ rawRequest) bool {
			c.send(sent)
			return false
		})
		body, more := io.Pipe()
		go func() { _, _ = io.WriteString(more, "begin") }()
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		req.SetRequestURI(s.url(lazyPath))
		req.Header.SetMethod("POST")
		req.SetBodyStream(body, -1)
		var client sluice.Client
		if err := client.Do(req, resp); !isError(err, want) {
			t.Errorf("%q: %v, want %v", sent, err, want)
		}
	}
}
