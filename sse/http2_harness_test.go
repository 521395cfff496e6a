package sse

import (
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/server/http2/http2test"
)

// A wire is the client of a connection of HTTP/2.
type wire struct {
	*http2test.Conn
	t *testing.T
}

// A wireStream is a stream of events on a wire.
type wireStream struct {
	*http2test.Stream
	*Reader
	t *testing.T
}

// wire connects. The windows of streams have window bytes.
func (f *fixture) wire(window uint32) *wire {
	f.t.Helper()
	return &wire{http2test.Dial(f.t, f.addr, window), f.t}
}

func newWire(t *testing.T, conn net.Conn, window uint32) *wire {
	return &wire{http2test.New(t, conn, window), t}
}

// open opens streams of topics.
func (w *wire) open(topics, lastID string) *wireStream {
	fields := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", "/" + topics}}
	if lastID != "" {
		fields = append(fields, [2]string{"last-event-id", lastID})
	}
	s := w.Open(true, fields...)
	return &wireStream{s, NewReader(s), w.t}
}

// want reads events with these data.
func (s *wireStream) want(data ...string) {
	s.t.Helper()
	for _, want := range data {
		e, err := s.Next()
		if err != nil || string(e.Data) != want {
			s.t.Fatalf("stream %d: event %q, %v, want %q", s.Stream.ID(), e.Data, err, want)
		}
	}
}

// wantEnd reads the end of the stream.
func (s *wireStream) wantEnd() {
	s.t.Helper()
	if e, err := s.Next(); err != io.EOF || s.IsReset() {
		s.t.Fatalf("stream %d: event %q, %v, want the end", s.Stream.ID(), e.Data, err)
	}
}
