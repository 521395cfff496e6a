package middleware

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// everything is all middlewares around h, for requests with the token "t".
func everything(t *testing.T, h sluice.RequestHandler) sluice.RequestHandler {
	return Use(h,
		RealIP(RealIPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		RequestID,
		AccessLog(accesslog.Options{Logger: slog.New(slog.DiscardHandler)}),
		Health(nil),
		SecureHeaders(nil),
		CORS(CORSOptions{Origins: []string{"https://a.example"}}),
		Recover(nil),
		RateLimit(newLimiter(t, 1000), RateLimitOptions{}),
		CSRF(CSRFOptions{}),
		BearerAuth("r", Tokens(map[string]string{"t": "ann"})),
		BodyLimit(1000),
		Timeout(10*time.Second),
		ETag,
	)
}

// checked answers requests that have passed all middlewares.
type checked struct {
	*testing.T
	hub  *sse.Hub
	echo *websocket.Endpoint
}

func (c checked) serve(ctx *sluice.RequestCtx) {
	if ip := ctx.RemoteIP().String(); ip != "203.0.113.9" || UserOf(ctx) != "ann" || RequestIDOf(ctx) != "id7" {
		c.Errorf("%s, %q, %q", ip, UserOf(ctx), RequestIDOf(ctx))
	}
	var err error
	switch string(ctx.Path()) {
	case "/ws":
		err = c.echo.Upgrade(ctx, nil)
	case "/events":
		err = c.hub.Serve(ctx, "news")
	case "/parts":
		for range 3 {
			ctx.SetBodyString("part ")
			err = errors.Join(err, ctx.Flush())
		}
	case "/echo":
		ctx.SetBody(ctx.PostBody())
	case "/hijack":
		ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "hijacked") })
	}
	if err != nil {
		c.Error(err)
	}
}

// A WebSocket, events, parts and a hijacked connection pass through all of them, over HTTP/1.1
// and HTTP/2.
func TestChain(t *testing.T) {
	hub, err := sse.New(sse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := checked{t, hub, &websocket.Endpoint{OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		return c.Write(context.Background(), m.Kind, m.Data)
	}}}
	addr := serve(t, &sluice.Server{Handler: everything(t, c.serve)})
	fields := map[string]string{"Authorization": "Bearer t", "X-Request-Id": "id7", "X-Forwarded-For": "1.1.1.1, 203.0.113.9", "Origin": "http://" + addr}
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			chainSocket(t, addr, version, fields)
			chainBodies(t, addr, version, fields, hub)
		})
	}
	var head bytes.Buffer
	for name, value := range fields {
		head.WriteString(name + ": " + value + "\r\n")
	}
	if got := ask(t, addr, "GET /hijack HTTP/1.1\r\nHost: h\r\n"+head.String()+"\r\n"); !strings.HasSuffix(got, "\r\n\r\nhijacked") || !strings.Contains(got, "X-Request-Id: id7") {
		t.Errorf("%q", got)
	}
}

func chainBodies(t *testing.T, addr, version string, fields map[string]string, hub *sse.Hub) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(version == "HTTP/1.1")
	protocols.SetUnencryptedHTTP2(version != "HTTP/1.1")
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	do := func(method, path, body string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			request.Header.Set(name, value)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.Proto != version || response.StatusCode != 200 || response.Header.Get("X-Request-Id") != "id7" || response.Header.Get("X-Frame-Options") != "DENY" || response.Header.Get("RateLimit") == "" {
			t.Errorf("%s: %s %s %v", path, response.Proto, response.Status, response.Header)
		}
		return response
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/parts", "", "part part part "}, {"POST", "/echo", "hello", "hello"},
	} {
		response := do(c.method, c.path, c.body)
		if all, err := io.ReadAll(response.Body); err != nil || string(all) != c.want {
			t.Errorf("%s: %q, %v", c.path, all, err)
		}
	}
	events := do("GET", "/events", "")
	awaitStreams(hub, 1)
	if err := hub.Publish("news", sse.Event{Data: []byte("Rain")}); err != nil {
		t.Error(err)
	}
	if e, err := sse.NewReader(events.Body).Next(); err != nil || string(e.Data) != "Rain" || events.Header.Get("ETag") != "" {
		t.Errorf("%q, %v, %v", e.Data, err, events.Header)
	}
	_ = events.Body.Close()
	awaitStreams(hub, 0)
}

func awaitStreams(hub *sse.Hub, n int) {
	for hub.Len("news") != n {
		time.Sleep(time.Millisecond)
	}
}

func chainSocket(t *testing.T, addr, version string, fields map[string]string) {
	t.Helper()
	o := websocket.DialOptions{Header: &sluice.RequestHeader{}}
	for name, value := range fields {
		o.Header.Set(name, value)
	}
	if version != "HTTP/1.1" {
		o.Client = &sluice.Client{HTTP2: sluice.HTTP2Only}
		defer o.Client.CloseIdleConnections()
	}
	c, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", &o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.Text, []byte("hello")); err != nil {
		t.Error(err)
	}
	if m, err := c.Read(t.Context()); err != nil || string(m.Data) != "hello" {
		t.Errorf("%q, %v", m.Data, err)
	}
	_ = c.Close(websocket.CodeNormal, "")
}
