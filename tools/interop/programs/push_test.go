package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// pushProxies are proxies for WebSockets and events, and the protocol that each of them
// speaks with the server: HAProxy makes an upgrade of HTTP/1.1 the extended CONNECT of
// HTTP/2 (RFC 8441).
var pushProxies = map[string]proxy{
	"HTTP/2.0": proxies[0],
	"HTTP/1.1": {"nginx", "", `
daemon off; master_process off; pid FOLDER/pid; error_log stderr;
events { }
http {
	access_log off;
	map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
	server {
		listen LISTEN;
		location / {
			proxy_pass http://HOST:PORT; proxy_http_version 1.1; proxy_buffering off;
			proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
		}
	}
}
`, func(config string) []string {
		return []string{"-e", "stderr", "-p", filepath.Dir(config), "-c", config}
	}, 0},
}

// A pushTarget is a server of echoing WebSockets, and of events.
type pushTarget struct {
	addr     string
	hub      *sse.Hub
	protocol chan string // of requests for WebSockets
	ends     chan error  // of WebSockets
}

func newPushTarget(t *testing.T, engine sluice.Engine) *pushTarget {
	hub, err := sse.New(sse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &pushTarget{hub: hub, protocol: make(chan string, 16), ends: make(chan error, 16)}
	sockets := &websocket.Endpoint{
		Compression: websocket.CompressionTakeover, ReadLimit: 1 << 20, Origins: []string{"*"},
		OnMessage: func(c *websocket.Conn, m websocket.Message) error { return c.Write(c.Context(), m.Kind, m.Data) },
		OnClose:   func(_ *websocket.Conn, err error) { g.ends <- err },
	}
	s := &sluice.Server{Engine: engine, Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/events" {
			if err := hub.Serve(ctx, "all"); err != nil {
				t.Error(err)
			}
			return
		}
		g.protocol <- string(ctx.Request.Header.Protocol())
		if err := sockets.Upgrade(ctx, nil); err != nil {
			t.Error(err)
		}
	}}
	ln := listen(t)
	g.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ln.Close() // Serve may not have begun
		if err := errors.Join(s.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return g
}

// TestPushProxies: WebSockets and events through proxies.
func TestPushProxies(t *testing.T) {
	t.Parallel()
	for protocol, p := range pushProxies {
		for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
			t.Run(fmt.Sprint(p.name, "/", engine), func(t *testing.T) {
				t.Parallel()
				p.name = find(t, p.name)
				g := newPushTarget(t, engine)
				addr := p.start(t, g.addr)
				g.checkWebSocket(t, addr, protocol)
				g.checkEvents(t, addr)
			})
		}
	}
}

func (g *pushTarget) checkWebSocket(t *testing.T, addr, protocol string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := websocket.Dial(ctx, "ws://"+addr+"/", &websocket.DialOptions{
		Endpoint: &websocket.Endpoint{Compression: websocket.CompressionTakeover, ReadLimit: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-g.protocol; got != protocol {
		t.Errorf("the proxy speaks %s, want %s", got, protocol)
	}
	for size := range 20 {
		for kind, want := range map[websocket.Kind][]byte{
			websocket.Text: []byte(strings.Repeat("é", 1<<size>>1)), websocket.Binary: bytes.Repeat([]byte{0xff, byte(size)}, 1<<size>>1),
		} {
			if err := c.Write(ctx, kind, want); err != nil {
				t.Fatal(err)
			}
			if m, err := c.Read(ctx); err != nil || m.Kind != kind || !bytes.Equal(m.Data, want) {
				t.Fatalf("size %d: %v, %d bytes, %v", 1<<size, m.Kind, len(m.Data), err)
			}
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = c.Read(ctx) // it takes what answers Ping
	}()
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(4000, "done"); err != nil {
		t.Error(err)
	}
	<-read
	var closed *websocket.CloseError
	if err := <-g.ends; !errors.As(err, &closed) || closed.Code != 4000 || closed.Reason != "done" {
		t.Errorf("the WebSocket has ended with %v", err)
	}
}

// checkEvents reads an event, and connects again for the next one.
func (g *pushTarget) checkEvents(t *testing.T, addr string) {
	client := newClient(t)
	client.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(false)
	last := ""
	for i := range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint("event ", i)
		if i == 0 { // the others are published while there is no stream
			if err := g.hub.Publish("all", sse.Event{Data: []byte(want)}); err != nil {
				t.Fatal(err)
			}
		}
		events := sse.NewReader(resp.Body)
		e, err := events.Next()
		if err != nil || string(e.Data) != want {
			t.Errorf("%q, %v, want %q", e.Data, err, want)
		}
		last = events.LastID()
		resp.Body.Close()
		if err := g.hub.Publish("all", sse.Event{Data: fmt.Append(nil, "event ", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
}
