package fasthttpadaptor

import (
	"io"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice/test/harness"
)

// Responses that no server of Go sends are those of net/http's client.
func TestTransportSameHeads(t *testing.T) {
	for _, c := range []struct{ method, answer string }{
		{"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: Foo, Close\r\nContent-Length: 2\r\n\r\nhi"},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: foo\r\nContent-Length: 2\r\n\r\nhi"},
		{"GET", "HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: \r\n\r\nhi"},
		{"GET", "HTTP/1.0 200 OK\r\n\r\nhi"},
		{"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"},
		{"GET", "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nContent-Length: 2\r\n\r\nhi"},
		{"GET", "HTTP/1.1 200 OK\r\nTrailer: , X-T,\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: 1\r\n\r\n"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"},
		{"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"},
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n"},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"},
	} {
		peer := harness.NewClientPeer(t, func(p *harness.PeerConn) {
			if _, err := http.ReadRequest(p.Br); err == nil {
				_, _ = io.WriteString(p, c.answer)
			}
		})
		var seen []string
		for _, transport := range []http.RoundTripper{&http.Transport{DisableCompression: true}, &Transport{}} {
			client := &http.Client{Transport: transport}
			req, err := http.NewRequest(c.method, "http://"+peer.Addr()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("%q: %v", c.answer, err)
			}
			seen = append(seen, describeResponse(t, resp))
			client.CloseIdleConnections()
		}
		if seen[0] != seen[1] {
			t.Errorf("%s, %q: got\n%s\nwant\n%s", c.method, c.answer, seen[1], seen[0])
		}
	}
}
