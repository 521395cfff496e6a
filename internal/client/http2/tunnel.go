package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A Tunnel is the net.Conn over the stream of an extended CONNECT that was accepted (RFC
// 8441 section 4): the content of DATA frames is its bytes.
//
// What was received waits in the stream, within its window; Read returns the credit. Write
// returns when all is on its way, and waits for the windows of the peer. The Deadlines and
// time-outs of the Stream do not concern a Tunnel.
type Tunnel struct {
	stream *Stream

	reading, writing sync.Mutex // one Read and one Write at a time; locked before Conn.mu
	isClosed         bool       // guarded by Conn.mu; the stream is not used any more
}

var _ net.Conn = (*Tunnel)(nil)

// Tunnel returns the Tunnel of s, or nil if the response to its CONNECT was not 2xx. Call it
// at most once after Do, and then Tunnel.Close in place of Close.
func (s *Stream) Tunnel() *Tunnel {
	if !s.isTunnel {
		return nil
	}
	return &Tunnel{stream: s}
}

// Read implements net.Conn. It returns io.EOF when the peer has ended its direction, and
// otherwise an *Error when the stream has ended.
func (t *Tunnel) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	s := t.stream
	c := s.conn
	c.mu.Lock()
	defer c.unlock()
	for {
		isEmpty := s.taken == len(s.inbox)
		switch {
		case t.isClosed:
			return 0, net.ErrClosed
		case isOver(s.receiver.until, clock.Nanos()):
			if isEmpty {
				s.inbox, s.taken = nil, 0 // the caller may be idle for long
			}
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case !isEmpty:
			return s.take(p), nil
		case s.input == inputEnded, s.state != streamOpen && s.err == nil:
			return 0, io.EOF
		case s.state != streamOpen:
			return 0, s.err
		}
		s.dropInbox()
		c.await(&s.receiver)
	}
}

// Write implements net.Conn.
func (t *Tunnel) Write(p []byte) (n int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	s := t.stream
	c := s.conn
	c.mu.Lock()
	defer c.unlock()
	if err := t.unwritable(); err != nil || len(p) == 0 {
		return 0, err
	}
	s.sender.isSignalled = false
	c.setDue(s.sender.until)
	c.supply(s, p, false, clock.Nanos())
	c.flush(&s.sender)
	for len(s.content) > 0 && err == nil {
		c.await(&s.sender)
		if len(s.content) > 0 {
			err = t.unwritable()
		}
	}
	n = len(p) - len(s.content)
	s.content = nil
	c.ready.Remove(&s.node)
	return n, err
}

// unwritable returns why nothing can be written, or nil.
func (t *Tunnel) unwritable() error {
	s := t.stream
	switch {
	case t.isClosed, s.output == outputEnded:
		return net.ErrClosed
	case s.state != streamOpen && s.err != nil:
		return s.err
	case isOver(s.sender.until, clock.Nanos()):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// CloseWrite ends the direction to the peer.
func (t *Tunnel) CloseWrite() error {
	c := t.stream.conn
	c.mu.Lock()
	defer c.unlock()
	if err := t.unwritable(); errors.Is(err, net.ErrClosed) {
		return err
	}
	t.endOutput()
	c.flush(nil)
	return nil
}

// endOutput sends the end of the stream, unless it was sent, or a Write is under way.
func (t *Tunnel) endOutput() {
	s := t.stream
	if s.state == streamOpen && s.output != outputEnded && len(s.content) == 0 {
		s.conn.appendEnd(s, clock.Nanos())
	}
}

// Close implements net.Conn. It ends the stream after what was written, and resets it with
// CANCEL, unless the peer has ended it too.
func (t *Tunnel) Close() error {
	s := t.stream
	c := s.conn
	c.mu.Lock()
	defer c.unlock()
	if t.isClosed {
		return net.ErrClosed
	}
	t.isClosed = true
	t.endOutput()
	c.cancel(s, ErrClosed)
	s.inbox, s.taken = nil, 0
	c.flush(nil)
	return nil
}

// SetDeadline implements net.Conn.
func (t *Tunnel) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (t *Tunnel) SetReadDeadline(at time.Time) error { return t.setUntil(&t.stream.receiver, at) }

// SetWriteDeadline implements net.Conn.
func (t *Tunnel) SetWriteDeadline(at time.Time) error { return t.setUntil(&t.stream.sender, at) }

// farAway is the latest deadline, so that sums do not overflow.
const farAway = time.Duration(1 << 62)

func (t *Tunnel) setUntil(w *waiter, at time.Time) error {
	c := t.stream.conn
	c.mu.Lock()
	defer c.unlock()
	if t.isClosed {
		return net.ErrClosed
	}
	until := int64(0)
	if !at.IsZero() {
		left := min(time.Until(at), farAway)      // before Nanos: a deadline must not be early
		until = (clock.Nanos() + int64(left)) | 1 // not 0
	}
	c.setUntil(w, until)
	return nil
}

// LocalAddr implements net.Conn.
func (t *Tunnel) LocalAddr() net.Addr { return t.stream.conn.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (t *Tunnel) RemoteAddr() net.Addr { return t.stream.conn.conn.RemoteAddr() }
