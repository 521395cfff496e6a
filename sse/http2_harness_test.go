package sse

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A wire is the client of a connection of HTTP/2. It reads all frames at once, and returns
// credit only where the test says so.
type wire struct {
	t    *testing.T
	conn net.Conn

	mu      sync.Mutex // guards the rest, and the streams
	frames  *http2.Framer
	streams map[uint32]*wireStream
	next    uint32
	err     error // of the connection
}

// A wireStream is a stream of a wire. Read returns its content.
type wireStream struct {
	wire    *wire
	id      uint32
	changed sync.Cond
	got     bytes.Buffer
	status  string
	err     error // after got
	credits bool  // what was received is credited at once
	*Reader
}

// wire connects. The windows of streams have window bytes.
func (f *fixture) wire(window uint32) *wire {
	f.t.Helper()
	conn, err := net.Dial("tcp4", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return newWire(f.t, conn, window)
}

func newWire(t *testing.T, conn net.Conn, window uint32) *wire {
	_ = conn.SetDeadline(time.Now().Add(patience))
	w := &wire{t: t, conn: conn, frames: http2.NewFramer(conn, conn), streams: map[uint32]*wireStream{}, next: 1}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := w.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		t.Fatal(err)
	}
	go w.read()
	return w
}

// open opens streams of topics.
func (w *wire) open(topics, lastID string) *wireStream {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &wireStream{wire: w, id: w.next, credits: true}
	s.changed.L = &w.mu
	s.Reader = NewReader(s)
	w.streams[s.id], w.next = s, w.next+2
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	fields := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", "/" + topics}}
	if lastID != "" {
		fields = append(fields, [2]string{"last-event-id", lastID})
	}
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // to memory
	}
	w.must(w.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}))
	return s
}

func (w *wire) must(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

// credit opens the window of a stream, and that of the connection.
func (s *wireStream) credit(n int) {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.creditLocked(n)
}

func (s *wireStream) creditLocked(n int) {
	_ = s.wire.frames.WriteWindowUpdate(0, uint32(n)) // fails when the server is done
	_ = s.wire.frames.WriteWindowUpdate(s.id, uint32(n))
}

// cancel resets the stream.
func (s *wireStream) cancel(code http2.ErrCode) {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.wire.must(s.wire.frames.WriteRSTStream(s.id, code))
}

// read reads frames until the connection ends.
func (w *wire) read() {
	decoder := hpack.NewDecoder(4096, nil)
	for {
		frame, err := w.frames.ReadFrame()
		w.mu.Lock()
		if err != nil {
			w.err = err
			for _, s := range w.streams {
				s.changed.Broadcast()
			}
			w.mu.Unlock()
			return
		}
		w.handle(frame, decoder)
		w.mu.Unlock()
	}
}

func (w *wire) handle(frame http2.Frame, decoder *hpack.Decoder) {
	s := w.streams[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			_ = w.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = w.frames.WritePing(true, f.Data)
		}
	case *http2.HeadersFrame:
		fields, err := decoder.DecodeFull(f.HeaderBlockFragment())
		w.must(err)
		s.status = fields[0].Value
	case *http2.DataFrame:
		s.got.Write(f.Data())
		if n := len(f.Data()); n > 0 && s.credits {
			s.creditLocked(n)
		}
		if f.StreamEnded() {
			s.err = io.EOF
		}
	case *http2.RSTStreamFrame:
		s.err = http2.StreamError{StreamID: s.id, Code: f.ErrCode}
	}
	if s != nil {
		s.changed.Broadcast()
	}
}

// Read implements io.Reader.
func (s *wireStream) Read(p []byte) (int, error) {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	for s.got.Len() == 0 {
		switch {
		case s.err != nil:
			return 0, s.err
		case s.wire.err != nil:
			return 0, s.wire.err
		}
		s.changed.Wait()
	}
	return s.got.Read(p)
}

// want reads events with these data.
func (s *wireStream) want(data ...string) {
	s.wire.t.Helper()
	for _, want := range data {
		e, err := s.Next()
		if err != nil || string(e.Data) != want {
			s.wire.t.Fatalf("stream %d: event %q, %v, want %q", s.id, e.Data, err, want)
		}
	}
}

// wantEnd reads the end of the stream.
func (s *wireStream) wantEnd() {
	s.wire.t.Helper()
	if e, err := s.Next(); err != io.EOF {
		s.wire.t.Fatalf("stream %d: event %q, %v, want the end", s.id, e.Data, err)
	}
}
