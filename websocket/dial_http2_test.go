package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// noStreams waits until no WebSocket uses a connection of c, and closes them.
func noStreams(t *testing.T, c *sluice.Client) {
	t.Helper()
	eventually(t, "the connections are idle", func() bool {
		c.CloseIdleConnections()
		return c.ConnsCount() == 0
	})
}

// secureEcho starts a server over TLS that echoes.
func secureEcho(t *testing.T, e *Endpoint, change func(s *sluice.Server)) (addr string) {
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("X-Version", string(ctx.Request.Header.Protocol()))
		_ = e.Upgrade(ctx, nil)
	}}
	change(s)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLSEmbed(ln, cert, key) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// TestDialVersions: which version of HTTP is used, with which servers and modes.
func TestDialVersions(t *testing.T) {
	var got atomic.Pointer[string]
	e := &Endpoint{OnMessage: echoMessage, Check: func(ctx *sluice.RequestCtx) error {
		version := string(ctx.Request.Header.Protocol())
		got.Store(&version)
		return nil
	}}
	f := startEndpoint(t, sluice.EngineEpoll, e)
	urls := map[string]string{
		"plain":        "ws://" + f.addr + "/",
		"h2":           "wss://" + secureEcho(t, e, func(*sluice.Server) {}) + "/",
		"http/1.1":     "wss://" + secureEcho(t, e, func(s *sluice.Server) { s.HTTP2.Disable = true }) + "/",
		"no WebSocket": "wss://" + secureEcho(t, e, func(s *sluice.Server) { s.HTTP2.DisableWebSocket = true }) + "/",
	}
	const h1, h2 = "HTTP/1.1", "HTTP/2.0"
	for server, want := range map[string][3]any{
		"plain":        {h1, h1, h2},
		"h2":           {h1, h2, h2},
		"http/1.1":     {h1, h1, sluice.ErrNoHTTP2},
		"no WebSocket": {h1, h1, sluice.ErrNoConnectProtocol},
	} {
		for mode, want := range want {
			client := &sluice.Client{HTTP2: sluice.HTTP2Mode(mode), TLSConfig: &tls.Config{InsecureSkipVerify: true}}
			c, err := Dial(t.Context(), urls[server], &DialOptions{Client: client})
			if want, ok := want.(error); ok {
				if !errors.Is(err, want) {
					t.Errorf("%s, mode %d: %v, want %v", server, mode, err, want)
				}
				noStreams(t, client)
				continue
			}
			if err != nil || *got.Load() != want {
				t.Fatalf("%s, mode %d: %v, %v; want %v", server, mode, err, *got.Load(), want)
			}
			if err := c.Write(t.Context(), Text, []byte("secret")); err != nil {
				t.Error(err)
			}
			if m, err := c.Read(t.Context()); err != nil || string(m.Data) != "secret" {
				t.Errorf("%q, %v", m.Data, err)
			}
			_ = c.Close(CodeNormal, "")
			<-c.Context().Done()
			noStreams(t, client)
		}
	}
	noneDialed(t)
}

// TestDialShares: many WebSockets, with callbacks and with Read, are on one connection, with
// requests.
func TestDialShares(t *testing.T) {
	const count = 80 // each has at most three streams at a time, of 250
	f := startEndpoint(t, sluice.EngineEpoll, &Endpoint{OnMessage: echoMessage})
	var dials atomic.Int64
	client := &sluice.Client{HTTP2: sluice.HTTP2Only, DialContext: func(ctx context.Context, addr string) (net.Conn, error) {
		dials.Add(1)
		return sluice.DialContext(ctx, addr)
	}}
	got, end := make(chan string, count), newEnds()
	e := &Endpoint{OnMessage: func(c *Conn, m Message) error {
		got <- string(m.Data)
		return c.Close(4000, "enough")
	}, OnClose: end.onClose}
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			c := f.dialTo(&DialOptions{Client: client, Endpoint: e})
			if err := c.TryWrite(Text, fmt.Appendf(nil, "callback %d", i)); err != nil {
				t.Error(err)
			}
			c = f.dialTo(&DialOptions{Client: client})
			for n := range 10 {
				text := fmt.Sprint("read ", i, n)
				if err := c.Write(t.Context(), Text, []byte(text)); err != nil {
					t.Error(err)
				}
				if m, err := c.Read(t.Context()); err != nil || string(m.Data) != text {
					t.Errorf("%q, %v", m.Data, err)
				}
			}
			if status, _, err := client.Get(nil, "http://"+f.addr+"/"); err != nil || status != sluice.StatusUpgradeRequired {
				t.Error(status, err)
			}
			_ = c.Close(CodeNormal, "")
		})
	}
	all.Wait()
	for range count {
		if text := <-got; !strings.HasPrefix(text, "callback ") {
			t.Error(text)
		}
		end.expect(t, "closed by this side with code 4000: enough")
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d dials", n)
	}
	noneDialed(t)
	noStreams(t, client)
}

// TestDialHTTP2Refused: a refusal has what has come of its body; 2xx answers are checked.
func TestDialHTTP2Refused(t *testing.T) {
	long := strings.Repeat("x", maxRefusal+1)
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		defer ctx.Response.Header.Set("X-A", "b")
		switch path := string(ctx.Path()); path {
		case "/extension":
			ctx.Response.Header.Set("Sec-WebSocket-Extensions", "permessage-deflate")
			ctx.Hijack(func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
		case "/long":
			ctx.Error(long, 401)
		default:
			ctx.Error("no", 403)
		}
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	client := &sluice.Client{HTTP2: sluice.HTTP2Only}
	for path, want := range map[string]HandshakeError{
		"/":          {Status: 403, Reason: "it does not switch to WebSocket", Body: []byte("no")},
		"/long":      {Status: 401, Reason: "it does not switch to WebSocket", Body: []byte(long[:maxRefusal])},
		"/extension": {Status: 200, Reason: "no extension was offered"},
	} {
		_, err := Dial(t.Context(), "ws://"+ln.Addr().String()+path, &DialOptions{Client: client})
		var got *HandshakeError
		if !errors.As(err, &got) || got.Status != want.Status || got.Reason != want.Reason || string(got.Body) != string(want.Body) ||
			string(got.Header.Peek("X-A")) != "b" {
			t.Errorf("%s: %v", path, err)
		}
	}
	noStreams(t, client)
	if err := errors.Join(s.Shutdown(), <-served); err != nil {
		t.Error(err)
	}
}

// TestDialHTTP2Redirects: they are followed over HTTP/2, too, and to a server without it.
func TestDialHTTP2Redirects(t *testing.T) {
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := redirecting(t, &tls.Config{Certificates: []tls.Certificate{pair}})
	old := redirecting(t, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
	client := &sluice.Client{HTTP2: sluice.HTTP2Auto, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
	h := &sluice.RequestHeader{}
	h.Set("Authorization", "Basic x")
	for url, want := range map[string]string{
		"wss://" + secure + "/?/a":                      "/a Basic x  ",
		"wss://" + secure + "/?wss://" + old + "/b":     "/b   ",
		"wss://" + old + "/?https://" + secure + "/c?":  "/c   ",
		"wss://" + secure + "/?http://" + secure + "/d": "it redirects from wss to ws",
	} {
		c, err := Dial(t.Context(), url, &DialOptions{Client: client, Header: h, MaxRedirects: 1})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if m, err := c.Read(t.Context()); err != nil || string(m.Data) != want {
			t.Errorf("%s: %q, %v; want %q", url, m.Data, err, want)
		}
		_ = c.Close(CodeNormal, "")
	}
	noneDialed(t)
	noStreams(t, client)
}

// TestDialHTTP2Slow: a peer that does not read holds up its WebSocket only. What waits for
// it is bounded.
func TestDialHTTP2Slow(t *testing.T) {
	stop := make(chan struct{})
	f := startEndpoint(t, sluice.EngineEpoll, &Endpoint{OnMessage: func(c *Conn, m Message) error {
		if m.Kind == Binary {
			<-stop
			return c.TryWrite(Text, []byte("read")) // no echo: both would have much to write, and read nothing meanwhile
		}
		return c.TryWrite(m.Kind, m.Data)
	}})
	client := &sluice.Client{HTTP2: sluice.HTTP2Only}
	slow, fast := f.dialTo(&DialOptions{Client: client}), f.dialTo(&DialOptions{Client: client})
	message := make([]byte, 60<<10)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	sent := 0
	for slow.Write(ctx, Binary, message) == nil {
		if sent += len(message); sent > 4<<20 {
			t.Fatal("writing does not wait")
		}
		if err := fast.Write(t.Context(), Text, []byte("fast")); err != nil {
			t.Fatal(err)
		}
		if m, err := fast.Read(t.Context()); err != nil || string(m.Data) != "fast" {
			t.Fatal(err)
		}
	}
	if n := slow.Pending(); n > 2*64<<10 {
		t.Errorf("%d bytes wait", n)
	}
	close(stop)
	if m, err := slow.Read(t.Context()); err != nil || string(m.Data) != "read" {
		t.Errorf("%q, %v", m.Data, err)
	}
	for _, c := range []*Conn{slow, fast} {
		_ = c.Close(CodeNormal, "")
	}
	noneDialed(t)
	noStreams(t, client)
}

// TestDialHTTP2Ends: how the end of the stream is seen by both.
func TestDialHTTP2Ends(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		server := newEnds()
		f, conns := opened(t, engine, &Endpoint{OnClose: server.onClose})
		client := &sluice.Client{HTTP2: sluice.HTTP2Only}
		peer := newEnds()
		o := &DialOptions{Client: client, Endpoint: &Endpoint{OnMessage: echoMessage, OnClose: peer.onClose}}
		c := f.dialTo(o)
		<-conns
		_ = c.Close(4001, "of the client")
		peer.expect(t, "closed by this side with code 4001: of the client")
		server.expect(t, "closed by the peer with code 4001: of the client")

		f.dialTo(o)
		_ = (<-conns).Close(4002, "of the server")
		peer.expect(t, "closed by the peer with code 4002: of the server")
		server.expect(t, "closed by this side with code 4002: of the server")

		f.dialTo(o)
		s := <-conns
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		_ = f.server.Shutdown()
		peer.expect(t, "closed by the peer with code 1001")
		noneDialed(t)
		noStreams(t, client)
	})
}

// TestDialHTTP2Foreign: a server of net/http, which does not admit WebSockets over HTTP/2.
func TestDialHTTP2Foreign(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	client := &sluice.Client{HTTP2: sluice.HTTP2Auto, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
	_, err := Dial(t.Context(), "wss://"+s.Listener.Addr().String(), &DialOptions{Client: client})
	var refused *HandshakeError
	if !errors.As(err, &refused) || refused.Status != 404 || string(refused.Header.Protocol()) != "HTTP/1.1" {
		t.Error(err)
	}
	noStreams(t, client)
}
