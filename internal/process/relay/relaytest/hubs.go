// Package relaytest tests Backplanes together with what they are for: hubs of WebSockets and of
// events.
package relaytest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

// Hubs tests two hubs on planes that are connected: their WebSockets are in one room.
func Hubs(t *testing.T, planes []backplane.Backplane) {
	a, b := serve(t, planes[0]), serve(t, planes[1])
	first, second, other := dial(t, a), dial(t, a), dial(t, b)
	for isReached := false; !isReached; {
		write(t, first, "hello")
		isReached = reads(other, "hello", 20*time.Millisecond)
	}
	write(t, other, "answer")
	for i, c := range []*websocket.Conn{first, second} {
		if !reads(c, "answer", 20*time.Second) {
			t.Errorf("member %d got no answer", i)
		}
	}
	write(t, first, "last")
	if !reads(second, "last", 20*time.Second) || !reads(other, "last", 20*time.Second) {
		t.Error("a member got no message")
	}
	write(t, other, "end")
	if m, err := first.Read(t.Context()); err != nil || string(m.Data) != "end" {
		t.Errorf("the sender got %q, %v", m.Data, err)
	}
}

// serve starts a server in which all WebSockets are in one room, and returns its address.
func serve(t *testing.T, plane backplane.Backplane) (address string) {
	hub, err := room.New(room.Options{Backplane: plane})
	if err != nil {
		t.Fatal(err)
	}
	e := &websocket.Endpoint{
		OnOpen: func(c *websocket.Conn) error { return hub.Join(c, "room") },
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			hub.Broadcast("room", websocket.Prepare(m.Kind, m.Data), room.Except(c))
			return nil
		},
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return "ws://" + ln.Addr().String()
}

func dial(t *testing.T, address string) *websocket.Conn {
	c, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(websocket.CodeNormal, "") })
	return c
}

func write(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.Text, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// reads reports whether a message comes in time, and drops those before it.
func reads(c *websocket.Conn, want string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		switch m, err := c.Read(ctx); {
		case err != nil:
			return false
		case string(m.Data) == want:
			return true
		}
	}
}
