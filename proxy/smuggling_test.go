package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestSmuggling: what an upstream gets is well-formed, and exactly what it should get,
// whatever a client sends. A request that is not clear reaches no upstream.
func TestSmuggling(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	upstream := &rawUpstream{answer: func(string) string { return ok }}
	to := upstream.start(t)
	for _, engine := range engines {
		addr := front(t, newProxy(t, Options{To: []string{to}, Forwarded: ForwardedDrop}), engine)
		for _, c := range smugglingCases {
			t.Run(engine.String()+"/"+c.name, func(t *testing.T) {
				statuses := exchangeAll(t, addr, c.in+last)
				if statuses != c.statuses {
					t.Errorf("the client got %q, want %q", statuses, c.statuses)
				}
				got, want := upstream.taken(), c.out
				if strings.HasSuffix(c.statuses, " 200") || c.statuses == "200" {
					want += "GET /last HTTP/1.1\r\nHost: a\r\n\r\n"
				}
				if got != want {
					t.Errorf("the upstream got\n%q\nwant\n%q", got, want)
				}
			})
		}
	}
}

// last is sent after each case. It reaches the upstream if the connection is kept.
const last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// exchangeAll sends text, and returns the statuses of the responses.
func exchangeAll(t *testing.T, addr, text string) string {
	t.Helper()
	conn := dialFront(t, addr)
	defer conn.Close()
	send(t, conn, text)
	var statuses []string
	for r := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return strings.Join(statuses, " ")
		}
		statuses = append(statuses, fmt.Sprint(resp.StatusCode))
		if resp.StatusCode >= 200 {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
}

// get is a request with more fields, and passed is what the upstream gets of it.
func get(fields string) string    { return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" }
func passed(fields string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" }

// post is a request with more fields and a body.
func post(fields, body string) string {
	return "POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body
}

// passedPost is what the upstream gets of a post.
func passedPost(fields, body string) string { return post(fields, body) }

const (
	chunked  = "Transfer-Encoding: chunked\r\n"
	hidden   = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
	twoTimes = "200 200"
)

// smugglingCases are what a client sends, the statuses that it gets, and what the upstream
// gets.
var smugglingCases = []struct{ name, in, statuses, out string }{
	// Framing (RFC 9112 sections 6 and 7).
	{"length and chunks", post("Content-Length: 4\r\n"+chunked, "0\r\n\r\n"+hidden), "400", ""},
	{"chunks and length", post(chunked+"Content-Length: 4\r\n", "0\r\n\r\n"+hidden), "400", ""},
	{"chunked with a suffix", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "501", ""},
	{"chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), "400", ""},
	{"chunked, then identity", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), "400", ""},
	{"two fields of transfer codings", post(chunked+"Transfer-Encoding: identity\r\n", "0\r\n\r\n"), "400", ""},
	{"blank before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), "400", ""},
	{"vertical tab before chunked", post("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"), "400", ""},
	{"folded transfer coding", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), "400", ""},
	{"chunks of HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\n" + chunked + "\r\n0\r\n\r\n", "400", ""},
	{"two equal lengths", post("Content-Length: 2\r\nContent-Length: 2\r\n", "hi"), "400", ""},
	{"two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "hi"), "400", ""},
	{"a list of lengths", post("Content-Length: 2, 2\r\n", "hi"), "400", ""},
	{"a length with a sign", post("Content-Length: +2\r\n", "hi"), "400", ""},
	{"a negative length", post("Content-Length: -1\r\n", "hi"), "400", ""},
	{"a hexadecimal length", post("Content-Length: 0x2\r\n", "hi"), "400", ""},
	{"a length that overflows", post("Content-Length: 18446744073709551618\r\n", "hi"), "400", ""},
	{"an empty length", post("Content-Length: \r\n", ""), "400", ""},
	{"a length with blanks in it", post("Content-Length: 1 0\r\n", "hi"), "400", ""},
	{"a length", post("Content-Length: 2\r\n", "hi"), twoTimes, passedPost("Content-Length: 2\r\n", "hi")},
	{"a request in the body", post(fmt.Sprintf("Content-Length: %d\r\n", len(hidden)), hidden), twoTimes, passedPost(fmt.Sprintf("Content-Length: %d\r\n", len(hidden)), hidden)},
	{"GET with a body", get("Content-Length: 2\r\n") + "hi", twoTimes, passed("Content-Length: 2\r\n") + "hi"},
	{"chunks", post(chunked, "2\r\nhi\r\n0\r\n\r\n"), twoTimes, passedPost(chunked, "2\r\nhi\r\n0\r\n\r\n")},
	{"chunk extensions go", post(chunked, "2;a=b\r\nhi\r\n0;c\r\n\r\n"), twoTimes, passedPost(chunked, "2\r\nhi\r\n0\r\n\r\n")},
	{"a chunk size with zeros", post(chunked, "0002\r\nhi\r\n000\r\n\r\n"), twoTimes, passedPost(chunked, "2\r\nhi\r\n0\r\n\r\n")},

	// Lines (RFC 9112 section 2.2).
	{"a field without a name", get(": a\r\n"), "400", ""},
	{"a field without a colon", get("abc\r\n"), "400", ""},
	{"a blank in a name", get("X Y: a\r\n"), "400", ""},
	{"a blank before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400", ""},
	{"a bare CR in a value", get("X: a\rb\r\n"), "400", ""},
	{"a NUL in a value", get("X: a\x00b\r\n"), "400", ""},
	{"a folded value", get("X: a\r\n b\r\n"), "400", ""},
	{"a request line with a tab", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "400", ""},
	{"a target with a blank", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400", ""},
	{"version in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n", "400", ""},
	{"version 0.9", "GET /\r\nHost: a\r\n\r\n", "400", ""},
	{"version 1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", twoTimes, passed("")},
	{"version 1.0", "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", twoTimes, passed("")},

	// Targets and hosts (RFC 9112 section 3).
	{"no host", "GET / HTTP/1.1\r\n\r\n", "400", ""},
	{"two hosts", get("Host: b\r\n"), "400", ""},
	{"a host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400", ""},
	{"a host with a user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400", ""},
	{"an absolute target", "GET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n", twoTimes, "GET /c?d HTTP/1.1\r\nHost: b\r\n\r\n"},
	{"a target with a user", "GET http://u:p@b/c HTTP/1.1\r\nHost: a\r\n\r\n", "400", ""},
	{"CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "501 200", ""},
	{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", twoTimes, "OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"},
	{"an encoded line end", "GET /%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n", twoTimes, "GET /%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"a path that is not normal", "GET //a/../b/./c%2F..;x HTTP/1.1\r\nHost: a\r\n\r\n", twoTimes, "GET //a/../b/./c%2F..;x HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "400", ""},

	// Fields of one connection (RFC 9110 section 7.6.1).
	{"named by Connection", get("Connection: X-One, x-two\r\nX-One: 1\r\nX-Two: 2\r\nX-Three: 3\r\n"), twoTimes, passed("X-Three: 3\r\n")},
	{"named by a second Connection", get("Connection: keep-alive\r\nConnection: X-One\r\nX-One: 1\r\n"), twoTimes, passed("")},
	{"Connection names Host", get("Connection: Host\r\n"), twoTimes, passed("")},
	{"Connection names Content-Length", post("Connection: Content-Length\r\nContent-Length: 2\r\n", "hi"), twoTimes, passedPost("Content-Length: 2\r\n", "hi")},
	{"Connection names Transfer-Encoding", post("Connection: Transfer-Encoding\r\n"+chunked, "2\r\nhi\r\n0\r\n\r\n"), twoTimes, passedPost(chunked, "2\r\nhi\r\n0\r\n\r\n")},
	{"Connection names itself", get("Connection: connection, , ,\r\n"), twoTimes, passed("")},
	{"the fields of a proxy", get("Keep-Alive: a\r\nProxy-Connection: b\r\nProxy-Authorization: c\r\nProxy-Authenticate: d\r\n"), twoTimes, passed("")},
	{"TE: trailers", get("Connection: TE\r\nTE: trailers, gzip\r\n"), twoTimes, passed("Te: trailers\r\nConnection: TE\r\n")},
	{"TE: gzip", get("TE: gzip\r\n"), twoTimes, passed("")},
	{"Max-Forwards", strings.Replace(get("Max-Forwards: 5\r\n"), "GET", "OPTIONS", 1), twoTimes, "OPTIONS / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nMax-Forwards: 4\r\n\r\n"},
	{"Max-Forwards of TRACE", strings.Replace(get("Max-Forwards: 99999999999999999999\r\n"), "GET", "TRACE", 1), twoTimes, "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nMax-Forwards: 18446744073709551614\r\n\r\n"},
	{"Max-Forwards of GET", get("Max-Forwards: 0\r\n"), twoTimes, passed("Max-Forwards: 0\r\n")},
	{"Max-Forwards that is none", strings.Replace(get("Max-Forwards: -1\r\n"), "GET", "OPTIONS", 1), twoTimes, "OPTIONS / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nMax-Forwards: -1\r\n\r\n"},
	{"Upgrade alone", get("Upgrade: websocket\r\n"), twoTimes, passed("")},
	{"Upgrade: h2c", get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), twoTimes, passed("")},
	{"Upgrade: websocket, h2c", get("Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n"), twoTimes, passed("")},
	{"Expect", post("Expect: 100-continue\r\nContent-Length: 2\r\n", "hi"), twoTimes, passedPost("Content-Length: 2\r\n", "hi")},

	// What a client says of itself.
	{"Forwarded fields", get("X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nx-forwarded-port: 1\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"), twoTimes, passed("")},

	// Trailers.
	{"a trailer field", post(chunked, "0\r\nX-Sum: 1\r\n\r\n"), twoTimes, passedPost(chunked, "0\r\nX-Sum: 1\r\n\r\n")},
	{"an announced trailer field", post(chunked+"Trailer: X-Sum\r\n", "0\r\nX-Sum: 1\r\n\r\n"), twoTimes, passedPost(chunked+"Trailer: X-Sum\r\n", "0\r\nX-Sum: 1\r\n\r\n")},
	{"announced fields of the head", post(chunked+"Trailer: Host, Content-Length, X-Forwarded-For, Connection, Te, X-Sum, X-Role\r\nX-Role: user\r\n", "0\r\nX-Role: root\r\n\r\n"), twoTimes, passedPost(chunked+"X-Role: user\r\nTrailer: X-Sum\r\n", "0\r\nX-Role: root\r\n\r\n")},
	{"a length in the trailer section", post(chunked, "0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nHost: b\r\nX-Sum: 1\r\n\r\n"), twoTimes, passedPost(chunked, "0\r\nX-Sum: 1\r\n\r\n")},
	{"forwarded in the trailer section", post(chunked, "0\r\nX-Forwarded-For: 1.2.3.4\r\nUpgrade: x\r\nX-Sum: 1\r\n\r\n"), twoTimes, passedPost(chunked, "0\r\nX-Sum: 1\r\n\r\n")},
	{"a field that is announced and in the head", post(chunked+"Trailer: X-Role\r\nX-Role: user\r\n", "0\r\n\r\n"), twoTimes, passedPost(chunked+"X-Role: user\r\n", "0\r\n\r\n")},
}

// TestBrokenBodies: the rest of a body that is malformed is never taken for a request, and
// the upstream does not take the part for the whole.
func TestBrokenBodies(t *testing.T) {
	upstream := &rawUpstream{answer: func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }}
	to := upstream.start(t)
	for _, engine := range engines {
		addr := front(t, newProxy(t, Options{To: []string{to}}), engine)
		for _, body := range []string{
			"2\nhi\r\n0\r\n\r\n", "2\r\nhi0\r\n\r\n", "2\r\nhixx0\r\n\r\n", "0x2\r\nhi\r\n0\r\n\r\n", "-2\r\nhi\r\n0\r\n\r\n",
			"2 \r\nhi\r\n0\r\n\r\n", " 2\r\nhi\r\n0\r\n\r\n", "2;a\nb\r\nhi\r\n0\r\n\r\n", "fffffffffffffffff\r\nhi\r\n0\r\n\r\n", "\r\n2\r\nhi\r\n0\r\n\r\n",
			"2\r\nhi\r\n0\r\nX Y: 1\r\n\r\n", "2\r\nhi\r\n0\r\n: 1\r\n\r\n",
		} {
			t.Run(fmt.Sprintf("%v/%q", engine, body), func(t *testing.T) {
				if statuses := exchangeAll(t, addr, post(chunked, body+hidden)+last); statuses != "400" {
					t.Errorf("the client got %q", statuses)
				}
				if got := upstream.taken(); strings.Contains(got, "hidden") || strings.Contains(got, "last") || strings.HasSuffix(got, "0\r\n\r\n") {
					t.Errorf("the upstream got %q", got)
				}
				if n := upstream.requests(); n != 0 {
					t.Fatalf("%d requests are whole", n)
				}
			})
		}
	}
}

// TestResponseSmuggling: what a client gets is well-formed, whatever an upstream sends. What
// is not clear is 502, and the upstream's connection is not used again.
func TestResponseSmuggling(t *testing.T) {
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
	for _, c := range []struct{ name, answer, want string }{
		{"a response", good + "\r\nok", good + "\r\nok"},
		{"length and chunks", good + chunked + "\r\n0\r\n\r\n", "502"},
		{"two lengths", good + "Content-Length: 3\r\n\r\nok", "502"},
		{"a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "502"},
		{"another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "502"},
		{"a NUL in a field", good + "X: a\x00\r\n\r\nok", "502"},
		{"a field without a colon", good + "abc\r\n\r\nok", "502"},
		{"a blank in a name", good + "X Y: a\r\n\r\nok", "502"},
		{"another protocol", "ICY 200 OK\r\n\r\nok", "502"},
		{"101 that nobody has asked for", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "502"},
		{"status 99", "HTTP/1.1 099 X\r\n\r\n", "502"},
		{"a head without end", good + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\nok", "502"},
		{"fields of the connection", good + "Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 2\r\nProxy-Authenticate: 3\r\nUpgrade: h2c\r\nTe: x\r\nX-Stays: 4\r\n\r\nok", good + "X-Stays: 4\r\n\r\nok"},
		{"close and other options", good + "Connection: close, X-Hop\r\nX-Hop: 1\r\nClose: 2\r\nX-Stays: 3\r\n\r\nok", good + "X-Stays: 3\r\n\r\nok"},
		{"options and close", good + "Close: 2\r\nX-Hop: 1\r\nConnection: x-hop\r\nConnection: CLOSE\r\n\r\nok", good + "\r\nok"},
		{"Connection names Content-Length", good + "Connection: Content-Length\r\n\r\nok", good + "\r\nok"},
		{"bytes after the body", good + "\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden", good + "\r\nok"},
		{"bytes after 204", "HTTP/1.1 204 No Content\r\n\r\nhidden", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"},
		{"chunks", "HTTP/1.1 200 OK\r\n" + chunked + "\r\n2;a=b\r\nok\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\n" + chunked + "\r\n2\r\nok\r\n0\r\n\r\n"},
		{"a trailer section", "HTTP/1.1 200 OK\r\n" + chunked + "Trailer: X-Sum\r\n\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\nKeep-Alive: 1\r\n\r\n", "HTTP/1.1 200 OK\r\n" + chunked + "Trailer: X-Sum\r\n\r\n0\r\nX-Sum: 1\r\n\r\n"},
		{"up to the end", "HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\r\n" + chunked + "\r\n2\r\nok\r\n0\r\n\r\n"},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\nok"},
		{"half a short body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"},
		{"a broken chunk", "HTTP/1.1 200 OK\r\n" + chunked + "\r\n2\r\nokx", "HTTP/1.1 200 OK\r\n" + chunked + "\r\n2\r\nok\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			closes := strings.HasPrefix(c.name, "half") || strings.HasPrefix(c.name, "a broken") || c.name == "up to the end"
			upstream := &rawUpstream{answer: func(string) string { return c.answer }}
			if closes {
				upstream = answerAndClose(c.answer)
			}
			addr := front(t, newProxy(t, Options{To: []string{upstream.start(t)}}), sluice.EngineAuto)
			conn := dialFront(t, addr)
			send(t, conn, get("")+get(""))
			conn.SetReadDeadline(soon())
			got, _ := io.ReadAll(conn)
			want := c.want + c.want
			switch isCut := strings.HasPrefix(c.name, "half") || strings.HasPrefix(c.name, "a broken"); {
			case c.want == "502":
				if n := strings.Count(string(got), "HTTP/1.1 502 Bad Gateway\r\n"); n != 2 {
					t.Errorf("the client got %q", got)
				}
				return
			case isCut:
				want = c.want
			}
			if string(got) != want {
				t.Errorf("the client got\n%q\nwant\n%q", got, want)
			}
		})
	}
}
