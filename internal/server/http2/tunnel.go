package http2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A Tunnel is the net.Conn over the stream of an extended CONNECT (RFC 8441 section 4).
// The content of the stream's DATA frames is its bytes.
//
// What was received waits in the stream, within its window; Read returns credit. Write
// copies to the stream, as Stream.Send does, and waits for the peer when as much waits as
// a stream holds. A peer that takes nothing of that for Config.StallTimeout gets a reset.
//
// A Tunnel is used in Exchange.serve or, after Outlive, until Close. The stream must
// not carry another request afterwards: calls that are late then find the Tunnel closed.
type Tunnel struct {
	conn   *Conn
	stream *Stream
	addrs  net.Conn

	reading  sync.Mutex // one Read at a time; locked before Conn.mu
	isClosed bool       // guarded by Conn.mu; the stream is not used any more
}

var _ net.Conn = (*Tunnel)(nil)

// errTunnelReset is returned after a reset, and when the connection has ended.
var errTunnelReset = fmt.Errorf("sluice: the stream was reset: %w", syscall.ECONNRESET)

// Tunnel returns the Tunnel of s, with the addresses of addrs. Call it once, in Serve.
func (s *Stream) Tunnel(addrs net.Conn) *Tunnel {
	s.hasTunnel = true
	return &Tunnel{conn: s.conn, stream: s, addrs: addrs}
}

// IsTunnel reports whether Tunnel was called, or the stream was detached as one.
func (s *Stream) IsTunnel() bool { return s.hasTunnel }

// Exempt exempts n Tasks, as engine.Workers does: the Task that uses a Tunnel waits for
// its peer.
func (s *Stream) Exempt(n int) { s.conn.workers.Exempt(n) }

// SendHead is Stream.SendHead for the final head. It is false after Close, too.
func (t *Tunnel) SendHead(f streams.Fields, isInterim, isLast bool) bool {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	t.conn.prompter.Prompt() // Serve may go on for long
	return !t.isClosed && t.stream.sendHead(f, isInterim, isLast)
}

// Outlive makes t go on after Serve, without deadlines, until Close. It is false if t is
// closed. A connection that ends resets it.
func (t *Tunnel) Outlive() bool {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	if t.isClosed {
		return false
	}
	t.outliveLocked()
	return true
}

// outliveLocked gives the stream to t.
func (t *Tunnel) outliveLocked() {
	c, s := t.conn, t.stream
	s.readDue, s.writeDue = 0, 0
	c.heads, s.head = c.heads-s.head, 0
	s.owner = ownerTunnel
	c.tunnels++
	if c.phase == phaseDraining || c.hasOutput() { // cutTunnels, or what Serve has sent last
		c.prompter.Prompt()
	}
}

// Revoke ends the use of t, and leaves the stream to Serve.
func (t *Tunnel) Revoke() {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	t.isClosed = true
	t.stream.changed.Broadcast()
}

// Close implements net.Conn. It ends the stream after what was written, and has it reset
// then, unless the peer has ended it too. Without a final head, it resets the stream.
func (t *Tunnel) Close() error { return t.close(t.conn.finish) }

// Abort is Close with a reset at once.
func (t *Tunnel) Abort() {
	_ = t.close(func(s *Stream, _ []byte) { t.conn.reset(s, h2.CodeInternalError) })
}

// close ends the stream with end.
func (t *Tunnel) close(end func(s *Stream, last []byte)) error {
	c, s := t.conn, t.stream
	c.mu.Lock()
	if t.isClosed {
		c.mu.Unlock() // the connection may have ended
		return net.ErrClosed
	}
	defer c.unlock()
	t.isClosed = true
	s.changed.Broadcast()
	c.discard(s)
	switch s.output {
	case outputNone:
		c.reset(s, h2.CodeInternalError)
	case outputOpen:
		end(s, nil)
	}
	if s.owner == ownerTunnel {
		c.tunnels--
		c.ownerDone(s)
	}
	c.prompter.Prompt()
	return nil
}

// Read implements net.Conn. It returns io.EOF when the peer has ended its direction.
func (t *Tunnel) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	c, s := t.conn, t.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case t.isClosed:
			return 0, net.ErrClosed
		case s.output == outputReset:
			return 0, errTunnelReset
		case isOver(s.readDue):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.taken < len(s.inbox):
			return c.takeBody(s, p), nil
		case s.input == inputEnded:
			return 0, io.EOF
		}
		s.armWait(s.readDue)
		s.reader = waitRuns
		s.changed.Wait()
		s.reader = waitNone
	}
}

// isOver reports whether a deadline is over; 0 never is.
func isOver(due int64) bool { return due != 0 && due <= clock.Nanos() }

// Write implements net.Conn. The final head must have been sent. Only one Write may run
// at a time.
func (t *Tunnel) Write(p []byte) (n int, err error) {
	c, s := t.conn, t.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; ; {
		switch {
		case t.isClosed:
			return len(p) - len(rest), net.ErrClosed
		case s.output == outputLast, s.output == outputEnded:
			return len(p) - len(rest), net.ErrClosed
		case s.output != outputOpen:
			return len(p) - len(rest), errTunnelReset
		case isOver(s.writeDue):
			return len(p) - len(rest), os.ErrDeadlineExceeded
		}
		if len(s.held) == 0 {
			s.progress.begin(clock.Nanos())
		}
		rest = c.hold(s, rest)
		c.prompter.Prompt()
		if len(rest) == 0 {
			return len(p), nil
		}
		s.armWait(s.writeDue)
		s.writer = waitRuns
		s.changed.Wait()
		s.writer = waitNone
	}
}

// CloseWrite ends the direction to the peer after what was written; Read goes on. The final
// head must have been sent.
func (t *Tunnel) CloseWrite() error {
	c, s := t.conn, t.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.isClosed, s.output == outputLast, s.output == outputEnded:
		return net.ErrClosed
	case s.output != outputOpen:
		return errTunnelReset
	}
	c.finish(s, nil)
	s.changed.Broadcast()
	c.prompter.Prompt()
	return nil
}

// SetDeadline implements net.Conn.
func (t *Tunnel) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (t *Tunnel) SetReadDeadline(at time.Time) error {
	return t.setDeadline(at, &t.stream.readDue, &t.stream.reader)
}

// SetWriteDeadline implements net.Conn.
func (t *Tunnel) SetWriteDeadline(at time.Time) error {
	return t.setDeadline(at, &t.stream.writeDue, &t.stream.writer)
}

// farAway is the latest deadline, so that sums do not overflow.
const farAway = time.Duration(1 << 62)

func (t *Tunnel) setDeadline(at time.Time, due *int64, wait *waitState) error {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	if t.isClosed {
		return net.ErrClosed
	}
	if *due = 0; !at.IsZero() {
		*due = clock.Nanos() + int64(min(time.Until(at), farAway)) - 1 | 1 // never 0
	}
	if *wait == waitRuns {
		t.stream.rearm(*due)
	}
	return nil
}

// LocalAddr implements net.Conn.
func (t *Tunnel) LocalAddr() net.Addr { return t.addrs.LocalAddr() }

// RemoteAddr implements net.Conn.
func (t *Tunnel) RemoteAddr() net.Addr { return t.addrs.RemoteAddr() }
