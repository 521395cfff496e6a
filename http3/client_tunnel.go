package http3

import (
	"errors"
	"net"
	"os"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/wire/h3"
)

const (
	// tunnelInput is how many bytes of a clientTunnel are read at once, except those of a larger
	// frame of DATA, which are read into the memory of Read. A Read holds as much while it waits.
	tunnelInput = 1 << 10
	// smallWrite is how many bytes are copied to be sent with the header of their frame.
	smallWrite = 4 << 10
)

// A clientTunnel is the net.Conn over the stream of an extended CONNECT that the server has accepted
// (RFC 9220): the content of DATA frames is its bytes. Its clientStream is never in the pool again.
type clientTunnel struct {
	tunnelConn
	stream *clientStream
	out    []byte // writing guards it, and the next one
	// writeErr is why nothing can be written any more; nil: it can.
	writeErr error
}

var _ net.Conn = (*clientTunnel)(nil)

// Tunnel implements streams.Stream.
func (s *clientStream) Tunnel() net.Conn {
	if !s.isTunnel {
		return nil
	}
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	s.params.Context, s.params.ReadTimeout = nil, 0
	return &clientTunnel{tunnelConn: tunnelConn{quic: s.quic}, stream: s}
}

// dropInput gives the memory of Do back, when all that came with the head was read.
func (t *clientTunnel) dropInput() {
	if s := t.stream; s.in != nil && cap(s.in.B) >= clientInput && s.from == s.to && len(s.rest) == 0 {
		s.in.Release()
		s.in, s.from, s.to = nil, 0, 0
	}
}

// Read implements net.Conn. It returns io.EOF when the server has ended its direction.
func (t *clientTunnel) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	if t.closed() {
		return 0, net.ErrClosed
	}
	t.dropInput()
	n, err := t.stream.Read(p)
	if err != nil && t.closed() {
		err = net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. After an error, a deadline among them, a part of a frame may have been
// sent, and further calls fail.
func (t *clientTunnel) Write(p []byte) (n int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	switch {
	case t.closed():
		return 0, net.ErrClosed
	case t.writeErr != nil || len(p) == 0:
		return 0, t.writeErr
	}
	s := t.stream
	t.out = h3.AppendFrameHeader(t.out[:0], h3.FrameData, uint64(len(p)))
	header := len(t.out)
	if len(p) <= smallWrite {
		t.out = append(t.out, p...)
		n, err = s.quic.Write(t.out)
		n = max(n-header, 0)
	} else if _, err = s.quic.Write(t.out); err == nil {
		n, err = s.quic.Write(p)
	}
	switch {
	case err == nil:
		return n, nil
	case t.closed():
		t.writeErr = err
		return n, net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.writeErr = os.ErrDeadlineExceeded
	default:
		t.writeErr = s.tunnelError(err)
	}
	return n, t.writeErr
}

// tunnelError returns the error for an error of a write.
func (s *clientStream) tunnelError(err error) error {
	s.mu.Lock()
	cause := s.cause
	s.mu.Unlock()
	var reset *quic.StreamError
	switch {
	case cause != nil:
		return cause
	case errors.As(err, &reset):
		return &Error{Code: uint64(reset.ErrorCode), IsRemote: reset.Remote, text: "the server has reset the stream"}
	}
	return s.conn.lost(err)
}

// CloseWrite ends the direction to the server.
func (t *clientTunnel) CloseWrite() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	switch {
	case t.closed():
		return net.ErrClosed
	case t.writeErr != nil:
		return t.writeErr
	}
	t.writeErr = net.ErrClosed
	return t.stream.quic.Close()
}

// Close implements net.Conn. It ends the stream after what was written, and tells the server to send
// no more.
func (t *clientTunnel) Close() error {
	t.mu.Lock()
	if t.isClosed {
		t.mu.Unlock()
		return net.ErrClosed
	}
	t.isClosed = true
	t.mu.Unlock()
	s := t.stream
	s.quic.CancelRead(quic.StreamErrorCode(h3.RequestCancelled))
	t.reading.Lock()
	defer t.reading.Unlock()
	t.lockWriting()
	defer t.writing.Unlock()
	switch t.writeErr {
	case nil:
		_ = s.quic.Close()
	case net.ErrClosed: // CloseWrite
	default:
		s.quic.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
	}
	if s.in != nil {
		s.in.Release()
		s.in = nil
	}
	c := s.conn
	c.remove(s.quic.StreamID())
	c.peers.pool.Release(c.peers.settings, c.member)
	return nil
}

// LocalAddr implements net.Conn.
func (t *clientTunnel) LocalAddr() net.Addr { return t.stream.conn.info.LocalAddr() }

// RemoteAddr implements net.Conn.
func (t *clientTunnel) RemoteAddr() net.Addr { return t.stream.conn.info.RemoteAddr() }
