package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

const interims = "HTTP/1.1 100 Continue\r\n\r\n" +
	"HTTP/1.1 102 Processing\r\nX-Step: 1\r\n\r\n" +
	"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nContent-Length: 3\r\nX-Kept: 2\r\n\r\n" +
	"HTTP/1.1 199 Own words\r\n\r\n"

// TestInterims: a client gets the interim responses for which it has not asked, with their end-to-end
// fields (RFC 9110 section 15.2), if its version knows them. None of the fields becomes one of the
// final response.
func TestInterims(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			u := &rawUpstream{answer: func(string) string { return interims + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" }}
			addr := front(t, newProxy(t, Options{To: []string{u.start(t)}, Via: "p"}), engine)
			for version, want := range map[string]string{
				"HTTP/1.1": "HTTP/1.1 102 Processing\r\nX-Step: 1\r\nVia: 1.1 p\r\n\r\n" +
					"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\nX-Kept: 2\r\nVia: 1.1 p\r\n\r\n" +
					"HTTP/1.1 199 Own words\r\nVia: 1.1 p\r\n\r\n" +
					"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVia: 1.1 p\r\nConnection: close\r\n\r\nok",
				"HTTP/1.0": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVia: 1.1 p\r\nConnection: close\r\n\r\nok",
			} {
				conn := dialFront(t, addr)
				send(t, conn, "GET / "+version+"\r\nHost: a\r\nConnection: close\r\n\r\n")
				if got, err := io.ReadAll(conn); err != nil || string(got) != want {
					t.Errorf("%s: %v\n%q\n%q", version, err, got, want)
				}
			}
		})
	}
}

// TestInterimsHTTP2 is TestInterims for clients and upstreams of HTTP/2.
func TestInterimsHTTP2(t *testing.T) {
	upstream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Step", "1")
		w.WriteHeader(102)
		w.Header().Del("X-Step")
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.WriteHeader(204)
	}
	raw := &rawUpstream{answer: func(string) string { return interims + "HTTP/1.1 204 No Content\r\n\r\n" }}
	for to, want := range map[string]string{
		strings.Replace(upstreamOf(t, upstream), "http", "h2c", 1): "[102 map[X-Step:[1]] 103 map[Link:[</a>]]]",
		raw.start(t): "[102 map[X-Step:[1]] 103 map[Link:[</a> </b>] X-Kept:[2]] 199 map[]]",
	} {
		addr := front(t, newProxy(t, Options{To: []string{to}}), sluice.EngineAuto)
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		var got []string
		req, _ := http.NewRequest("GET", "http://"+addr+"/", nil)
		resp, err := transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				got = append(got, fmt.Sprint(code, " ", h))
				return nil
			},
		})))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		transport.CloseIdleConnections()
		if fmt.Sprint(got) != want || resp.Header.Get("Link") != "" || resp.Header.Get("X-Step") != "" {
			t.Errorf("%s: %s, %v; want %s", to, got, resp.Header, want)
		}
	}
}

// TestInterimsOfUpload: interim responses pass while the body arrives, whether or not the client has
// asked for 100, and those before the upgrade of a connection, too.
func TestInterimsOfUpload(t *testing.T) {
	const many = 10
	upstream := func(w http.ResponseWriter, r *http.Request) {
		for range many {
			w.WriteHeader(102)
		}
		n, err := io.Copy(io.Discard, r.Body)
		w.WriteHeader(103)
		fmt.Fprint(w, n, err)
	}
	onEachProtocol(t, Options{}, upstream, func(t *testing.T, _ *Proxy, first *net.TCPConn) {
		for _, field := range []string{"", "Expect: 100-continue\r\n"} {
			conn := dialFront(t, first.RemoteAddr().String())
			send(t, conn, post("Transfer-Encoding: chunked\r\n"+field, ""))
			r := bufio.NewReader(conn)
			var codes []int
			for len(codes) < many+len(field)/len("Expect: 100-continue\r\n") {
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, resp.StatusCode)
			}
			slices.Sort(codes)
			if isAsked := codes[0] == 100; isAsked != (field != "") || codes[1] != 102 || codes[len(codes)-1] != 102 {
				t.Errorf("%v", codes)
			}
			send(t, conn, "3\r\nabc\r\n0\r\n\r\n")
			answerTo(t, r, 103)
			if body := bodyOf(t, answerTo(t, r, 200)); body != "3 <nil>" {
				t.Errorf("%q", body)
			}
		}
	})
	u := answerAndClose("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
	conn := dialFront(t, front(t, newProxy(t, Options{To: []string{u.start(t)}}), sluice.EngineAuto))
	send(t, conn, get("Connection: upgrade\r\nUpgrade: x\r\n"))
	r := bufio.NewReader(conn)
	answerTo(t, r, 103)
	answerTo(t, r, 101)
}
