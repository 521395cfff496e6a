package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestUpgradeRequired: an answer 426 says to which protocols the client may change (RFC 9110 section
// 15.5.22), whether or not it has asked for one, and its connection stays. HTTP/2 has no such field.
func TestUpgradeRequired(t *testing.T) {
	u := &rawUpstream{answer: func(string) string {
		return "HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.0, x\r\nUpgrade: y\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nno"
	}}
	for _, engine := range engines {
		addr := front(t, newProxy(t, Options{To: []string{u.start(t)}}), engine)
		conn := dialFront(t, addr)
		r := bufio.NewReader(conn)
		for _, fields := range []string{"", "Connection: upgrade\r\nUpgrade: x\r\n", ""} {
			send(t, conn, get(fields))
			resp := answerTo(t, r, 426)
			const want = "map[Connection:[Upgrade] Content-Length:[2] Upgrade:[TLS/1.0, x, y]]"
			if got := fmt.Sprint(resp.Header); got != want || bodyOf(t, resp) != "no" {
				t.Errorf("%q: %s, want %s", fields, got, want)
			}
		}
		client := sluice.HostClient{Addr: addr, HTTP2: sluice.HTTP2Only}
		var req sluice.Request
		var resp sluice.Response
		req.SetRequestURI("http://" + addr)
		if err := client.Do(&req, &resp); err != nil || resp.StatusCode() != 426 || len(resp.Header.Peek("Upgrade"))+len(resp.Header.Peek("Connection")) > 0 {
			t.Errorf("HTTP/2: %v\n%s", err, &resp.Header)
		}
		client.CloseIdleConnections()
	}
}

// TestMaxForwards: OPTIONS and TRACE that must not be forwarded are answered by the proxy (RFC 9110
// section 7.6.2).
func TestMaxForwards(t *testing.T) {
	u := &rawUpstream{answer: func(string) string { return "HTTP/1.1 204 No Content\r\n\r\n" }}
	conn := dialFront(t, front(t, newProxy(t, Options{To: []string{u.start(t)}}), sluice.EngineAuto))
	r := bufio.NewReader(conn)
	for method, status := range map[string]int{"OPTIONS": 200, "TRACE": 501} {
		send(t, conn, method+" / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
		if body := bodyOf(t, answerTo(t, r, status)); body != sluice.StatusMessage(status) {
			t.Errorf("%s: %q", method, body)
		}
	}
	if n := u.requests(); n != 0 {
		t.Errorf("%d requests were forwarded", n)
	}
}

// TestTE: an upstream learns that trailer fields are welcome, over HTTP/2, too: gRPC needs it.
func TestTE(t *testing.T) {
	upstream := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["Te"]) }
	onEachProtocol(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		send(t, conn, get("Connection: TE\r\nTE: gzip, trailers\r\n"))
		if body := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); body != "[trailers]" {
			t.Errorf("TE is %s", body)
		}
	})
}

// TestTEOfUpgrade: TE is announced as a field of the connection beside Upgrade (RFC 9110 section
// 10.1.4).
func TestTEOfUpgrade(t *testing.T) {
	u := answerAndClose("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	conn := dialFront(t, front(t, newProxy(t, Options{To: []string{u.start(t)}, Forwarded: ForwardedDrop}), sluice.EngineAuto))
	send(t, conn, get("Connection: TE, Upgrade\r\nTE: trailers\r\nUpgrade: x\r\n"))
	answerTo(t, bufio.NewReader(conn), 101)
	const want = "GET / HTTP/1.1\r\nHost: a\r\nTe: trailers\r\nConnection: TE, Upgrade\r\nUpgrade: x\r\n\r\n"
	if got := u.taken(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
