package websocket

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/server/http2/http2test"
)

// A wire is the client of a connection of HTTP/2.
type wire struct {
	*http2test.Conn
	t *testing.T
}

// newWire makes a connection of HTTP/2. The windows of streams have window bytes.
func newWire(t *testing.T, addr string, window uint32) *wire {
	t.Helper()
	return &wire{http2test.Dial(t, addr, window), t}
}

// open opens a WebSocket.
func (w *wire) open() (*client, *http2test.Stream) {
	w.t.Helper()
	s := w.Open(false, [][2]string{{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"},
		{":authority", "h"}, {":path", "/"}, {"sec-websocket-version", "13"}}...)
	if status, err := s.Status(); status != "200" {
		w.t.Fatalf("stream %d: status %q, %v", s.ID(), status, err)
	}
	return newClient(w.t, s), s
}
