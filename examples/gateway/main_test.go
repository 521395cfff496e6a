package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
	"github.com/sluicehttp/sluice/sluicetest"
	"github.com/sluicehttp/sluice/websocket"
)

// startUpstream starts a server that answers with its name, and echoes the messages of
// WebSockets.
func startUpstream(t *testing.T, name string) *sluicetest.Server {
	echo := &websocket.Endpoint{OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		return c.Write(context.Background(), m.Kind, m.Data)
	}}
	return sluicetest.NewServer(t, func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/ws":
			_ = echo.Upgrade(ctx, nil) // it is answered already
		case "/healthz":
		default:
			fmt.Fprintf(ctx, "%s %s %s %s", name, ctx.RequestURI(), ctx.Request.Header.Peek("X-Forwarded-For"), ctx.Request.Header.Peek("X-Request-Id"))
		}
	})
}

// startGateway starts a gateway in front of two servers of notes, one of them down, and one server
// of the site.
func startGateway(t *testing.T, rate int) (s *sluicetest.Server, g *gateway) {
	down := startUpstream(t, "down")
	down.Close()
	segment, err := shared.New(shared.Options{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := segment.RateLimiter("clients", shared.RateLimit{Events: rate, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g, err = newGateway([]string{down.URL, startUpstream(t, "api").URL}, []string{startUpstream(t, "site").URL}, limit)
	if err != nil {
		t.Fatal(err)
	}
	s = sluicetest.NewUnstartedServer(t, nil)
	s.Config = g.server
	t.Cleanup(func() {
		g.api.Close()
		g.site.Close()
	})
	s.Start()
	return s, g
}

// TestGateway: where requests go, and what their servers learn.
func TestGateway(t *testing.T) {
	sluicetest.CheckLeaks(t)
	s, g := startGateway(t, 1000)
	get := func(path string) (int, string) {
		t.Helper()
		req, resp := sluicetest.NewRequest("GET", s.URL+path, ""), &sluice.Response{}
		req.Header.Set("X-Request-Id", "mine")
		req.Header.Set("X-Forwarded-For", "192.0.2.1") // not true
		if err := s.Client().Do(req, resp); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode(), string(resp.Body())
	}
	for path, want := range map[string]string{
		"/notes":     "api /notes 127.0.0.1 mine",
		"/notes/1?a": "api /notes/1?a 127.0.0.1 mine",
		"/notebook":  "site /notebook 127.0.0.1 mine",
		"/":          "site / 127.0.0.1 mine",
		"/readyz":    "ok\n",
	} {
		if status, got := get(path); status != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", path, status, got, want)
		}
	}

	c, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Write(t.Context(), websocket.Text, []byte("hello"))
	if m, failed := c.Read(t.Context()); err != nil || failed != nil || string(m.Data) != "hello" {
		t.Errorf("%q, %v, %v", m.Data, err, failed)
	}
	_ = c.Close(websocket.CodeNormal, "")

	resp := sluicetest.Record(t, g.metrics(), sluicetest.NewRequest("GET", "/upstreams", ""))
	if strings.Count(string(resp.Body()), `"name":"http://127.0.0.1:`) != 3 {
		t.Errorf("%s", resp)
	}
}

// TestRateLimit: a client that asks too often gets 429, and probes of health go on.
func TestRateLimit(t *testing.T) {
	sluicetest.CheckLeaks(t)
	s, _ := startGateway(t, 3)
	for i, want := range []int{200, 200, 200, 429, 429} {
		if status, body, err := s.Client().Get(nil, s.URL+"/"); status != want || err != nil {
			t.Errorf("request %d: %d %s, %v", i, status, body, err)
		}
	}
	if status, _, err := s.Client().Get(nil, s.URL+"/healthz"); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}
