// Package http2test is a client of HTTP/2 for tests of what servers do on streams: the test
// decides when the server gets credit.
package http2test

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

// Window is what the windows of a server have at first.
const Window = 64 << 10

const patience = 20 * time.Second

// A Conn is the client of a connection of HTTP/2. It reads all frames at once.
type Conn struct {
	net.Conn
	t testing.TB

	mu      sync.Mutex // guards the rest, and the streams
	frames  *http2.Framer
	streams map[uint32]*Stream
	next    uint32
	err     error // of the connection
}

// A Stream is the net.Conn of a stream. Read returns its content. Write sends DATA at once,
// whatever the window is. Close does nothing: the Conn closes the connection.
type Stream struct {
	net.Conn // of the connection
	conn     *Conn
	id       uint32
	changed  sync.Cond
	got      bytes.Buffer
	status   string
	err      error // after got
	isReset  bool
	room     int  // the server's window
	isMean   bool // what was received is not credited
}

// New begins a connection of HTTP/2 on conn, with a deadline. The windows of streams have
// window bytes.
func New(t testing.TB, conn net.Conn, window uint32) *Conn {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &Conn{Conn: conn, t: t, frames: http2.NewFramer(conn, conn), streams: map[uint32]*Stream{}, next: 1}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		t.Fatal(err)
	}
	go c.read()
	return c
}

// Dial connects to addr and calls New. The connection is closed when the test ends.
func Dial(t testing.TB, addr string, window uint32) *Conn {
	t.Helper()
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return New(t, conn, window)
}

// Open sends a request with these fields, which ends the stream if isLast.
func (c *Conn) Open(isLast bool, fields ...[2]string) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Stream{Conn: c.Conn, conn: c, id: c.next, room: Window}
	s.changed.L = &c.mu
	c.streams[s.id], c.next = s, c.next+2
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // to memory
	}
	c.must(c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: isLast}))
	return s
}

func (c *Conn) must(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

// read reads frames until the connection ends.
func (c *Conn) read() {
	decoder := hpack.NewDecoder(4096, nil)
	for {
		frame, err := c.frames.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.err = err
			for _, s := range c.streams {
				s.changed.Broadcast()
			}
			c.mu.Unlock()
			return
		}
		c.handle(frame, decoder)
		c.mu.Unlock()
	}
}

func (c *Conn) handle(frame http2.Frame, decoder *hpack.Decoder) {
	s := c.streams[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			_ = c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.frames.WritePing(true, f.Data)
		}
	case *http2.HeadersFrame:
		fields, err := decoder.DecodeFull(f.HeaderBlockFragment())
		c.must(err)
		if status := fields[0].Value; status[0] != '1' {
			s.status = status
		}
		if f.StreamEnded() {
			s.err = io.EOF
		}
	case *http2.DataFrame:
		s.got.Write(f.Data())
		if n := len(f.Data()); n > 0 && !s.isMean {
			s.credit(n)
		}
		if f.StreamEnded() {
			s.err = io.EOF
		}
	case *http2.WindowUpdateFrame:
		if s != nil {
			s.room += int(f.Increment)
		}
	case *http2.RSTStreamFrame:
		if s.isReset = true; s.err == nil {
			s.err = http2.StreamError{StreamID: s.id, Code: f.ErrCode}
		}
	}
	if s != nil {
		s.changed.Broadcast()
	}
}

// credit opens the window of a stream, and that of the connection; Conn.mu is locked.
func (s *Stream) credit(n int) {
	_ = s.conn.frames.WriteWindowUpdate(0, uint32(n)) // fails when the server is done
	_ = s.conn.frames.WriteWindowUpdate(s.id, uint32(n))
}

// Credit opens the window of the stream, and that of the connection.
func (s *Stream) Credit(n int) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.credit(n)
}

// SetMean(true) withholds credit for what is received from now on. SetMean(false) gives it
// again, and for what was not read yet.
func (s *Stream) SetMean(is bool) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.isMean = is
	if n := s.got.Len(); !is && n > 0 {
		s.credit(n)
	}
}

// Status waits for the head of the final response and returns its status, or why there is none.
func (s *Stream) Status() (string, error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	for s.status == "" {
		if err := s.ended(); err != nil {
			return "", err
		}
		s.changed.Wait()
	}
	return s.status, nil
}

// ended returns why nothing more is received, or nil; Conn.mu is locked.
func (s *Stream) ended() error {
	if s.err != nil {
		return s.err
	}
	return s.conn.err
}

// ID returns the number of the stream.
func (s *Stream) ID() uint32 { return s.id }

// Window returns how much the server takes.
func (s *Stream) Window() int {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.room
}

// Held returns how much was received and not read.
func (s *Stream) Held() int {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.got.Len()
}

// IsReset reports whether the server has reset the stream.
func (s *Stream) IsReset() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.isReset
}

// Reset resets the stream.
func (s *Stream) Reset(code http2.ErrCode) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.must(s.conn.frames.WriteRSTStream(s.id, code))
}

// CloseWrite ends the client's direction.
func (s *Stream) CloseWrite() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.must(s.conn.frames.WriteData(s.id, true, nil))
}

// Write implements net.Conn.
func (s *Stream) Write(p []byte) (int, error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.room -= len(p)
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 16<<10)
		if err := s.conn.frames.WriteData(s.id, false, rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Read implements net.Conn.
func (s *Stream) Read(p []byte) (int, error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	for s.got.Len() == 0 {
		if err := s.ended(); err != nil {
			return 0, err
		}
		s.changed.Wait()
	}
	return s.got.Read(p)
}

// Close implements net.Conn.
func (s *Stream) Close() error { return nil }
