package server_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestPlainHTTPOnTLS: a client that sends HTTP where TLS is spoken is told so; anything else
// that is no TLS is closed.
func TestPlainHTTPOnTLS(t *testing.T) {
	for _, under := range harness.UnderTLS() {
		n := harness.OverTLS(t, under)
		var plain func() (net.Conn, error)
		listen := n.Listen
		n.Listen = func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			ln, dial := listen(t)
			plain = func() (net.Conn, error) {
				c, err := dial()
				if secure, ok := c.(*tls.Conn); ok {
					return secure.NetConn(), nil
				}
				return c, err
			}
			return ln, dial
		}
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{Handler: answering("x")})
			for _, request := range []string{
				"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "PUT http://h/ HTTP/1.1\r\n\r\n",
				"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "M-SEARCH * HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CONNECT h:1 HTTP/1.1\r\n\r\n",
			} {
				c, err := plain()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(c, request); err != nil {
					t.Error(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Errorf("%q: %v", request, err)
					continue
				}
				text, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 400 || !strings.Contains(string(text), "HTTPS") || err != nil || !resp.Close {
					t.Errorf("%q: %d %q, %v", request, resp.StatusCode, text, err)
				}
				c.Close()
			}
			for _, other := range []string{"hello", "get / HTTP/1.1\r\n\r\n", "\x00\x01\x02\x03\x04\x05", "SSH-2.0-x\r\n", "  GET /", "A B C D E F"} {
				c, err := plain()
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(c, other)
				if text, _ := io.ReadAll(c); strings.HasPrefix(string(text), "HTTP/") {
					t.Errorf("%q: answered %q", other, text)
				}
				c.Close()
			}
			if a := r.Dial().Get("/"); a.Body != "x" {
				t.Errorf("over TLS: %q", a.Body)
			}
		})
	}
}
