package difftest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

const (
	nextGet     = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
	postHead    = "POST / HTTP/1.1\r\nHost: h\r\n"
	chunkedHead = postHead + "Transfer-Encoding: chunked\r\n\r\n"
)

// refusals are requests, with the statuses that fasthttp and Sluice answer.
// Those with the number of a row of docs/compatibility.md differ.
var refusals = []struct{ row, request, theirs, ours string }{
	{"S1", postHead + "Transfer-Encoding: identity\r\n\r\n" + nextGet, "200 200", "400"},
	{"S1", postHead + "Transfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nx" + nextGet, "200", "400"},
	{"S2", postHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + nextGet, "200", "400"},
	{"S3", postHead + "Transfer-Encoding: gzip\r\n\r\n" + nextGet, "400", "501"},
	{"S3", postHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + nextGet, "400", "501"},
	{"S4", "GET / HTTP/1.1\r\nHost: h\r\nX Bar: 1\r\n\r\n" + nextGet, "200 200", "400"},
	{"S4", postHead + "Transfer Encoding: chunked\r\n\r\n" + nextGet, "200 200", "400"},
	{"S4", chunkedHead + "0\r\nX Bar: 1\r\n\r\n" + nextGet, "200 200", "400"},
	{"S5", chunkedHead + "0;\x01\r\n\r\n" + nextGet, "200 200", "400"},
	{"S5", chunkedHead + "0 \r\n\r\n" + nextGet, "200 200", "400"},
	{"S5", chunkedHead + "0;" + strings.Repeat("x", 300) + "\r\n\r\n" + nextGet, "200 200", "400"},
	{"S6", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n" + nextGet, "200 200", "400"},
	{"S6", "GET / HTTP/1.1\r\nHost: x<y>\r\n\r\n" + nextGet, "200 200", "400"},
	{"S7", "GET / HTTP/2.0\r\nHost: h\r\n\r\n" + nextGet, "200", "505"},
	{"S7", "GET / HTTP/0.9\r\nHost: h\r\n\r\n" + nextGet, "200", "505"},
	{"S7", "GET / HTTP/1.2\r\nHost: h\r\n\r\n" + nextGet, "200", "200 200"},
	{"S8", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"S8", "GET /a%2 HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"", "GET /a?%<>|^`{} HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "200 200"},
	{"S9", "GET http://user@host/ HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"S9", "GET ftp://host/ HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"", "GET * HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "400", "400"},
	{"", "CONNECT * HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "400", "400"},
	{"", "POST x HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "400", "400"},
	{"", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "200 200"},
	{"S10", "CONNECT /path HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"S10", "CONNECT h HTTP/1.1\r\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"S11", "GET / HTTP/1.1\nHost: h\r\n\r\n" + nextGet, "200 200", "400"},
	{"S11", "GET / HTTP/1.1\r\nHost: h\n\r\n" + nextGet, "200 200", "400"},
	{"", "GET / HTTP/1.1\r\nHost: h\n\n", "400", "400"}, // fasthttp at the end of the connection only
	{"", chunkedHead + "1\nx\r\n0\r\n\r\n", "400", "400"},
	{"S12", "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n" + nextGet, "200 200", "400"},
	{"", strings.Repeat("\r\n", 4) + nextGet, "200", "200"},
	{"S13", strings.Repeat("\r\n", 5) + nextGet, "200", "400"},
	{"S14", "GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n" + nextGet, "200 200", "417"},
	{"S15", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("x: 1\r\n", 200) + "\r\n" + nextGet, "200 200", "431"},
	{"S16", chunkedHead + "0\r\nContent-Length: 1\r\n\r\n" + nextGet, "400", "200 200"},
	{"S16", postHead + "Trailer: Content-Length\r\nContent-Length: 0\r\n\r\n" + nextGet, "400", "200 200"},
	{"S20", postHead + "Content-Length: 100000\r\n\r\n", "400", "413"},
	{"S20", postHead + "Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n", "100 400", "413"},
	{"S22", "GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: h\r\n\r\n", "431", "200"},
	{"S21", "GET /" + strings.Repeat("x", 10_000) + " HTTP/1.1\r\nHost: h\r\n\r\n", "431", "414"},
	{"S22", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", "431", "200"},
	{"S29", postHead + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx" + nextGet, "100 200 200", "200 200"},
	{"", "POST / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "200", "200"},
}

// A recordedConn is a cannedConn that keeps what is written.
type recordedConn struct {
	cannedConn
	written strings.Builder
}

func (c *recordedConn) Write(p []byte) (int, error) { return c.written.Write(p) }

var statusLine = regexp.MustCompile(`HTTP/1\.1 (\d+) `)

// statusesOf returns the statuses of all that a server answers.
func statusesOf(s server, request string) string {
	c := &recordedConn{cannedConn: cannedConn{in: strings.NewReader(request)}}
	_ = s.ServeConn(c)
	var statuses []string
	for _, match := range statusLine.FindAllStringSubmatch(c.written.String(), -1) {
		statuses = append(statuses, match[1])
	}
	return strings.Join(statuses, " ")
}

// TestRefusals compares which requests are refused, and how.
func TestRefusals(t *testing.T) {
	theirs := &fasthttp.Server{Logger: silent{}, MaxRequestBodySize: 1000, Handler: func(*fasthttp.RequestCtx) {}}
	ours := &sluice.Server{Logger: silent{}, MaxRequestBodySize: 1000, Handler: func(*sluice.RequestCtx) {}}
	for _, r := range refusals {
		if got := statusesOf(theirs, r.request); got != r.theirs {
			t.Errorf("%s %.100q: fasthttp answers %s, want %s", r.row, r.request, got, r.theirs)
		}
		if got := statusesOf(ours, r.request); got != r.ours {
			t.Errorf("%s %.100q: sluice answers %s, want %s", r.row, r.request, got, r.ours)
		}
		if (r.theirs != r.ours) != (r.row != "") {
			t.Errorf("%.100q has the row %q", r.request, r.row)
		}
	}
}
