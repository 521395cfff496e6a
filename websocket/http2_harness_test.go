package websocket

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
	net.Conn
	t *testing.T

	mu      sync.Mutex // guards the rest, and the streams
	frames  *http2.Framer
	streams map[uint32]*wireStream
	next    uint32
	err     error // of the connection
}

// A wireStream is the net.Conn of a WebSocket on a wire. Write sends DATA at once,
// whatever the window is.
type wireStream struct {
	net.Conn // of the wire
	wire     *wire
	id       uint32
	changed  sync.Cond
	got      bytes.Buffer
	status   string
	err      error // after got
	room     int   // the server's window
	isMean   bool  // what was received is not credited
}

// streamWindow is what the server's windows have at first.
const streamWindow = 64 << 10

// newWire makes a connection of HTTP/2. The windows of streams have window bytes.
func newWire(t *testing.T, addr string, window uint32) *wire {
	t.Helper()
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	w := &wire{Conn: conn, t: t, frames: http2.NewFramer(conn, conn), streams: map[uint32]*wireStream{}, next: 1}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := w.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		t.Fatal(err)
	}
	go w.read()
	return w
}

// open opens a WebSocket.
func (w *wire) open() (*client, *wireStream) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &wireStream{Conn: w.Conn, wire: w, id: w.next, room: streamWindow}
	s.changed.L = &w.mu
	w.streams[s.id], w.next = s, w.next+2
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":authority", "h"}, {":path", "/"}, {"sec-websocket-version", "13"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // to memory
	}
	w.must(w.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true}))
	for s.status == "" && s.err == nil && w.err == nil {
		s.changed.Wait()
	}
	if s.status != "200" {
		w.t.Fatalf("stream %d: status %q, %v, %v", s.id, s.status, s.err, w.err)
	}
	return newClient(w.t, s), s
}

func (w *wire) must(err error) {
	if err != nil {
		w.t.Error(err)
	}
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
		if n := len(f.Data()); n > 0 && !s.isMean {
			s.creditLocked(n)
		}
		if f.StreamEnded() {
			s.err = io.EOF
		}
	case *http2.WindowUpdateFrame:
		if s != nil {
			s.room += int(f.Increment)
		}
	case *http2.RSTStreamFrame:
		if s.err == nil {
			s.err = http2.StreamError{StreamID: s.id, Code: f.ErrCode}
		}
	}
	if s != nil {
		s.changed.Broadcast()
	}
}

func (s *wireStream) creditLocked(n int) {
	_ = s.wire.frames.WriteWindowUpdate(0, uint32(n)) // fails when the server is done
	_ = s.wire.frames.WriteWindowUpdate(s.id, uint32(n))
}

// setMean stops or begins to credit what is received.
func (s *wireStream) setMean(is bool) {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.isMean = is
	if n := s.got.Len(); !is && n > 0 {
		s.creditLocked(n)
	}
}

// window returns how much the server takes.
func (s *wireStream) window() int {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	return s.room
}

// held returns how much was received and not read.
func (s *wireStream) held() int {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	return s.got.Len()
}

// cancel resets the stream.
func (s *wireStream) cancel() {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.wire.must(s.wire.frames.WriteRSTStream(s.id, http2.ErrCodeCancel))
}

// finish ends the client's direction.
func (s *wireStream) finish() {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.wire.must(s.wire.frames.WriteData(s.id, true, nil))
}

// Write implements net.Conn.
func (s *wireStream) Write(p []byte) (int, error) {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.room -= len(p)
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 16<<10)
		if err := s.wire.frames.WriteData(s.id, false, rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Read implements net.Conn.
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

// Close implements net.Conn: the wire closes the connection.
func (s *wireStream) Close() error { return nil }
