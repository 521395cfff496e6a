package websocket_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// patience is how long anything may take.
const patience = time.Minute

// A client is a connection of HTTP/2 that carries tunnels. It offers windows of 64 KiB, and
// returns credit as they are read.
type client struct {
	t      *testing.T
	framer *http2.Framer

	mu       sync.Mutex // writes, and what follows
	changed  sync.Cond
	encoder  *hpack.Encoder
	block    bytes.Buffer
	streams  map[uint32]*stream
	last     uint32
	window   int64 // of the connection
	initial  int64 // window of new streams
	hasSetup bool  // the server's SETTINGS have come
	err      error // of the connection
}

// A stream is a tunnel. It is an io.ReadWriter.
type stream struct {
	client   *client
	id       uint32
	status   string // "": there is no head yet
	protocol string
	inbox    []byte
	window   int64
	isEnded  bool
	code     http2.ErrCode
	isReset  bool
}

// dialHTTP2 opens a connection in plain text to a server that offers tunnels.
func dialHTTP2(t *testing.T, addr string) *client {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &client{t: t, framer: http2.NewFramer(conn, conn), streams: map[uint32]*stream{}, window: 65535, initial: 65535, last: 1<<32 - 1}
	c.changed.L = &c.mu
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.hasSetup && c.err == nil {
		c.changed.Wait()
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c
}

// read reads frames until the connection ends.
func (c *client) read() {
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err == nil {
			err = c.handle(frame)
		}
		c.err = err
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *client) handle(frame http2.Frame) error {
	s := c.streams[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if v, ok := f.Value(http2.SettingEnableConnectProtocol); !ok || v != 1 {
			return errors.New("the server does not offer CONNECT")
		}
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			c.initial = int64(v)
		}
		c.hasSetup = true
		return c.framer.WriteSettingsAck()
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.framer.WritePing(true, f.Data)
		}
	case *http2.WindowUpdateFrame:
		if s != nil {
			s.window += int64(f.Increment)
		} else if f.StreamID == 0 {
			c.window += int64(f.Increment)
		}
	case *http2.MetaHeadersFrame:
		s.status, s.isEnded = f.PseudoValue("status"), f.StreamEnded()
		for _, field := range f.RegularFields() {
			switch field.Name {
			case "sec-websocket-protocol":
				s.protocol = field.Value
			case "sec-websocket-accept", "upgrade", "connection":
				return fmt.Errorf("there is a field %v", field)
			}
		}
	case *http2.DataFrame:
		s.inbox, s.isEnded = append(s.inbox, f.Data()...), f.StreamEnded()
		if len(s.inbox) > 65535 {
			return errors.New("the server exceeds the window")
		}
		if f.Length > 0 {
			return c.framer.WriteWindowUpdate(0, f.Length)
		}
	case *http2.RSTStreamFrame:
		s.isReset, s.isEnded, s.code = true, true, f.ErrCode
	case *http2.GoAwayFrame:
		if f.ErrCode != http2.ErrCodeNo {
			return fmt.Errorf("GOAWAY %v %s", f.ErrCode, f.DebugData())
		}
	}
	return nil
}

// open asks for a WebSocket, and waits for the answer.
func (c *client) open(path string) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last += 2
	s := &stream{client: c, id: c.last, window: c.initial}
	c.streams[s.id] = s
	c.block.Reset()
	for _, field := range [][2]string{
		{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path},
		{"sec-websocket-version", "13"}, {"sec-websocket-protocol", "echo"}, {"origin", "http://localhost"},
	} {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: c.block.Bytes(), EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	for s.status == "" && c.err == nil && !s.isReset {
		c.changed.Wait()
	}
	if s.status == "" {
		c.t.Fatalf("no answer: %v, %v", c.err, s.code)
	}
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(s.inbox) == 0 {
		switch {
		case s.isReset && s.code != http2.ErrCodeNo:
			return 0, fmt.Errorf("stream %d was reset: %v", s.id, s.code)
		case s.isEnded:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.err
		}
		c.changed.Wait()
	}
	n := copy(p, s.inbox)
	s.inbox = s.inbox[:copy(s.inbox, s.inbox[n:])]
	if s.isEnded {
		return n, nil
	}
	return n, c.framer.WriteWindowUpdate(s.id, uint32(n))
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (written int, err error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for written < len(p) {
		n := int(min(int64(len(p)-written), s.window, c.window, 16<<10))
		switch {
		case c.err != nil:
			return written, c.err
		case s.isReset:
			return written, fmt.Errorf("stream %d was reset: %v", s.id, s.code)
		case n <= 0:
			c.changed.Wait()
			continue
		}
		if err := c.framer.WriteData(s.id, false, p[written:written+n]); err != nil {
			return written, err
		}
		written += n
		s.window -= int64(n)
		c.window -= int64(n)
	}
	return written, nil
}

// The opcodes of RFC 6455 section 5.2.
const (
	opContinuation = 0
	opBinary       = 2
	opClose        = 8
)

// send sends a frame of WebSocket, masked.
func (s *stream) send(opcode byte, isFinal bool, payload []byte) error {
	if isFinal {
		opcode |= 0x80
	}
	out := []byte{opcode}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, byte(s.id)}
	out = append(out, mask[:]...)
	for i, b := range payload {
		out = append(out, b^mask[i%4])
	}
	_, err := s.Write(out)
	return err
}

// receive returns a message.
func (s *stream) receive() (opcode byte, message []byte, err error) {
	for isFinal := false; !isFinal; {
		var head [2]byte
		if _, err := io.ReadFull(s, head[:]); err != nil {
			return 0, nil, err
		}
		if opcode == 0 {
			opcode = head[0] & 0xf
		}
		isFinal = head[0]&0x80 != 0
		var long [8]byte
		size := uint64(head[1])
		switch size {
		case 126:
			_, err = io.ReadFull(s, long[6:])
			size = binary.BigEndian.Uint64(long[:])
		case 127:
			_, err = io.ReadFull(s, long[:])
			size = binary.BigEndian.Uint64(long[:])
		}
		if err != nil || size > 1<<20 {
			return 0, nil, fmt.Errorf("a frame of %d bytes, %v", size, err)
		}
		part := make([]byte, size)
		if _, err := io.ReadFull(s, part); err != nil {
			return 0, nil, err
		}
		message = append(message, part...)
	}
	return opcode, message, nil
}

// converse has messages echoed, and closes. With isLong, there are messages of 1 MiB.
func (s *stream) converse(isLong bool) {
	t := s.client.t
	sizes := []int{1, 125, 126, 1000, 65535, 65536}
	if isLong {
		sizes = append(sizes, 1<<20)
	}
	for _, size := range sizes {
		message := bytes.Repeat([]byte{byte(size), byte(s.id), 3}, size/3+1)[:size]
		for _, parts := range []int{1, 3} {
			sent := make(chan error, 1)
			go func() { sent <- s.sendMessage(message, parts) }()
			opcode, got, err := s.receive()
			if err := errors.Join(err, <-sent); err != nil {
				t.Errorf("%d bytes: %v", size, err)
				return
			}
			if opcode != opBinary || !bytes.Equal(got, message) {
				t.Errorf("%d bytes came back as %d", size, len(got))
			}
		}
	}
	if err := s.send(opClose, true, []byte{0x03, 0xe8}); err != nil { // 1000
		t.Error(err)
	}
	if opcode, code, err := s.receive(); opcode != opClose || err != nil || !bytes.Equal(code[:2], []byte{0x03, 0xe8}) {
		t.Errorf("the answer to close is %d, %x, %v", opcode, code, err)
	}
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after close: %v", err)
	}
}

// sendMessage sends a message in parts.
func (s *stream) sendMessage(message []byte, parts int) error {
	opcode := byte(opBinary)
	for i := range parts {
		part := message[i*len(message)/parts : (i+1)*len(message)/parts]
		if err := s.send(opcode, i == parts-1, part); err != nil {
			return err
		}
		opcode = opContinuation
	}
	return nil
}
