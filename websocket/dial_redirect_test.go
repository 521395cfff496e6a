package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// A countedConn calls then before the Read after size bytes.
type countedConn struct {
	net.Conn
	size int
	then func()
}

func (c *countedConn) Read(p []byte) (int, error) {
	if c.size <= 0 {
		c.then()
	}
	n, err := c.Conn.Read(p)
	c.size -= n
	return n, err
}

// TestDialRefusalBody: Body has what has come, at most 64 KiB.
func TestDialRefusalBody(t *testing.T) {
	long := strings.Repeat("x", maxRefusal+1)
	for name, test := range map[string]struct {
		answer string
		size   int
		stays  bool // the server sends no more, and keeps the connection
	}{
		"long":         {"Content-Length: 65537\r\n\r\n" + long, maxRefusal, false},
		"long chunked": {"Transfer-Encoding: chunked\r\n\r\n10001\r\n" + long + "\r\n0\r\n\r\n", maxRefusal, false},
		"to the end":   {"\r\nno", 2, false},
		"cut":          {"Content-Length: 3\r\n\r\nno", 2, false},
		"stays":        {"Content-Length: 3\r\n\r\nno", 2, true},
		"stays open":   {"\r\nno", 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := "HTTP/1.1 403 Forbidden\r\n" + test.answer
			addr := answering(t, answer, func(net.Conn) {
				if test.stays {
					<-t.Context().Done()
				}
			})
			o := &DialOptions{}
			if test.stays {
				o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
					conn, err := sluice.DialContext(ctx, addr)
					return &countedConn{conn, len(answer), cancel}, err
				}
			}
			_, err := Dial(ctx, "ws://"+addr, o)
			var refused *HandshakeError
			if !errors.As(err, &refused) || refused.Status != 403 || len(refused.Body) != test.size {
				t.Errorf("%v", err)
			}
		})
	}
	noneDialed(t)
}

// redirecting starts a server, over TLS if secure is not nil, that redirects /?URL to URL,
// and otherwise echoes. The first message of a connection are its credentials.
func redirecting(t *testing.T, secure *tls.Config) (addr string) {
	e := &Endpoint{OnMessage: echoMessage, OnOpen: func(c *Conn) error { return c.TryWrite(Text, []byte(c.State().(string))) }}
	s := &sluice.Server{TLSConfig: secure, Handler: func(ctx *sluice.RequestCtx) {
		h := &ctx.Request.Header
		if to := string(ctx.URI().QueryString()); to != "" {
			ctx.Response.Header.Set("Location", to)
			ctx.SetStatusCode(map[bool]int{true: 307, false: 302}[len(to)%2 == 0])
			return
		}
		_ = e.Upgrade(ctx, fmt.Sprintf("%s %s %s %s", ctx.Path(), h.Peek("Authorization"), h.Peek("Cookie"), h.Peek("X-Kept")))
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		if secure != nil {
			served <- s.ServeTLS(ln, "", "")
			return
		}
		served <- s.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		if err := errors.Join(s.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// TestDialRedirects: which redirects are followed, and what they get of Header.
func TestDialRedirects(t *testing.T) {
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	plain, other := redirecting(t, nil), redirecting(t, nil)
	secure := redirecting(t, &tls.Config{Certificates: []tls.Certificate{pair}})
	all, few := "Basic x a=b 1", "  1"
	for _, test := range []struct{ url, want string }{
		{"ws://" + plain + "/", "/ " + all},
		{"ws://" + plain + "/a/?b", "/a/b " + all},
		{"ws://" + plain + "/a/?/c%23x", ""}, // it is part of the path
		{"ws://" + plain + "/?//" + plain + "/c", "/c " + all},
		{"ws://" + plain + "/?http://" + plain + "/d", "/d " + all},
		{"ws://" + plain + "/?ws://" + other + "/e", "/e " + few},
		{"ws://" + plain + "/?wss://" + secure + "/f", "/f " + few},
		{"ws://" + plain + "/?https://" + secure + "/g", "/g " + few},
		{"wss://" + secure + "/?/h", "/h " + all},
		{"wss://" + secure + "/?ws://" + plain + "/i", "it redirects from wss to ws"},
		{"wss://" + secure + "/?http://" + plain + "/i", "it redirects from wss to ws"},
		{"ws://" + plain + "/?ftp://" + plain + "/i", "it redirects to no URL of WebSocket"},
		{"ws://" + plain + "/?mailto:x", "it redirects to no URL of WebSocket"},
		{"ws://" + plain + "/?ws:///x", "it redirects to no URL of WebSocket"},
		{"ws://" + plain + "/???/x", "it does not switch"}, // three redirects
	} {
		h := &sluice.RequestHeader{}
		h.Set("Authorization", "Basic x")
		h.Set("Cookie", "a=b")
		h.Set("X-Kept", "1")
		for most := range 3 {
			c, err := Dial(t.Context(), test.url, &DialOptions{Header: h, MaxRedirects: most, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
			if err != nil {
				if isFirst := most == 0 && strings.Contains(test.url, "?"); !isFirst && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v", test.url, err)
				}
				continue
			}
			m, err := c.Read(t.Context())
			if got := string(m.Data); err != nil || test.want != "" && got != test.want || most == 0 && strings.Contains(test.url, "?") {
				t.Errorf("%s, %d redirects: %q, %v; want %q", test.url, most, got, err, test.want)
			}
			_ = c.Close(CodeNormal, "")
		}
		if string(h.Peek("Cookie")) != "a=b" || h.Len() != 3 {
			t.Errorf("Header was changed: %s", h)
		}
	}
	noneDialed(t)
}

// TestDialUserinfo: the user information of a URL is sent as Basic authentication, to its own
// origin only, and does not replace the Authorization of Header.
func TestDialUserinfo(t *testing.T) {
	plain, other := redirecting(t, nil), redirecting(t, nil)
	for _, test := range []struct{ url, want, header string }{
		{"ws://u:p%3A@" + plain + "/", "/ Basic dTpwOg==  ", ""},
		{"ws://u:p@" + plain + "/?/a", "/a Basic dTpw  ", ""},
		{"ws://u:p@" + plain + "/?http://" + plain + "/b", "/b Basic dTpw  ", ""},
		{"ws://u:p@" + plain + "/?ws://x:y@" + plain + "/b", "/b Basic eDp5  ", ""},
		{"ws://u:p@" + plain + "/?//" + other + "/c", "/c   ", ""},
		{"ws://u:p@" + plain + "/?ws://" + other + "/d", "/d   ", ""},
		{"ws://u:p@" + plain + "/?ws://x:y@" + other + "/e", "/e   ", ""},
		{"ws://" + plain + "/", "/ Bearer x  ", "Bearer x"},
		{"ws://u:p@" + plain + "/", "/ Bearer x  ", "Bearer x"},
		{"ws://u:p@" + plain + "/?/a", "/a Bearer x  ", "Bearer x"},
		{"ws://" + plain + "/?ws://x:y@" + plain + "/b", "/b Bearer x  ", "Bearer x"},
		{"ws://u%3Av:p@" + plain + "/", "/ Bearer x  ", "Bearer x"},
		{"ws://u:p@" + plain + "/?//" + other + "/c", "/c   ", "Bearer x"},
		{"ws://u%3Av:p@" + plain + "/", "colon", ""},
		{"ws://u:p%0A@" + plain + "/", "control character", ""},
	} {
		for _, client := range []*sluice.Client{nil, {HTTP2: sluice.HTTP2Only}} {
			h := &sluice.RequestHeader{}
			if test.header != "" {
				h.Set("Authorization", test.header)
			}
			c, err := Dial(t.Context(), test.url, &DialOptions{Header: h, MaxRedirects: 1, Client: client})
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v", test.url, err)
				}
				continue
			}
			if m, err := c.Read(t.Context()); err != nil || string(m.Data) != test.want {
				t.Errorf("%s, HTTP/2: %v: %q, %v; want %q", test.url, client != nil, m.Data, err, test.want)
			}
			_ = c.Close(CodeNormal, "")
			if client != nil {
				noStreams(t, client)
			}
		}
	}
	noneDialed(t)
}
