package http2_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// TestHTTP2EndOfNewConn: a server that ends between the first bytes of a connection and its
// first request costs Go's clients no request: they repeat none on a connection that was
// closed before it carried one.
func TestHTTP2EndOfNewConn(t *testing.T) {
	ends := map[string]func(s *sluice.Server){
		"CloseOnNextResponse": func(s *sluice.Server) { s.Control().CloseOnNextResponse() },
		"Shutdown":            func(s *sluice.Server) { go s.Shutdown() },
	}
	clients := map[string]func(r *harness.Rig, dial func() (net.Conn, error)) *http.Client{
		"net/http": func(r *harness.Rig, dial func() (net.Conn, error)) *http.Client {
			client := r.HTTP2Client()
			transport := client.Transport.(*http.Transport)
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial() }
			transport.DialTLSContext = transport.DialContext
			return client
		},
		"x/net": func(r *harness.Rig, dial func() (net.Conn, error)) *http.Client {
			transport := &http2.Transport{AllowHTTP: true, DialTLSContext: func(context.Context, string, string, *tls.Config) (net.Conn, error) { return dial() }}
			r.T.Cleanup(transport.CloseIdleConnections)
			return &http.Client{Transport: transport, Timeout: harness.Patience}
		},
	}
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		t.Parallel()
		for endName, end := range ends {
			for clientName, newClient := range clients {
				t.Run(endName+"/"+clientName, func(t *testing.T) {
					t.Parallel()
					testEndOfNewConn(t, n, end, newClient)
				})
			}
		}
	})
}

func testEndOfNewConn(t *testing.T, n harness.Network, end func(*sluice.Server), newClient func(*harness.Rig, func() (net.Conn, error)) *http.Client) {
	handler := func(ctx *sluice.RequestCtx) { ctx.SetBody(ctx.Request.Body()) }
	leaving := harness.ServeHTTP2(t, n, &sluice.Server{Handler: handler})
	staying := harness.ServeHTTP2(t, n, &sluice.Server{Handler: handler})
	connects := []harness.Connect{leaving.Connect}
	var mu sync.Mutex
	client := newClient(staying, func() (net.Conn, error) {
		mu.Lock()
		connect := staying.Connect
		if len(connects) > 0 {
			connect, connects = connects[0], nil
		}
		mu.Unlock()
		c, err := connect()
		if secure, ok := c.(*tls.Conn); ok {
			err = secure.Handshake()
		}
		return c, err
	})
	var once sync.Once
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		once.Do(func() {
			harness.Eventually(t, "the server speaks HTTP/2", func() bool { return leaving.Server.EngineStats().HTTP2.Connections == 1 })
			end(leaving.Server)
			for range 50 { // a client that does not go on for a while
				if leaving.Server.GetOpenConnectionsCount() == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		})
	}}
	for range 3 {
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", n.Scheme()+"://h/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); got != "body" {
			t.Errorf("got %q", got)
		}
	}
}

// TestHTTP2ConnOfClosingServer: a connection that a server accepts, and whose handshake it makes,
// after CloseOnNextResponse has a request answered, and tells its client then.
func TestHTTP2ConnOfClosingServer(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBody(ctx.Request.Body()) }})
		first := r.HTTP2Client()
		for i := range 4 {
			if i == 1 {
				r.Server.Control().CloseOnNextResponse()
			}
			resp, err := first.Post(n.Scheme()+"://h/", "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, resp); got != "body" {
				t.Errorf("got %q", got)
			}
		}
		f := r.Frames()
		f.Head(1, "GET", "/", true)
		got := f.Describe() + f.Describe()
		if strings.Count(got, "200 .") != 1 || strings.Count(got, "GOAWAY") != 2 || !strings.HasSuffix(got, "end") {
			t.Errorf("got %q", got)
		}
	})
}
