package http3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// A tunnel is the net.Conn over the stream of an extended CONNECT (RFC 9220): the content of
// DATA frames is its bytes. It is used while the handler runs or, after Outlive, until Close.
type tunnel struct {
	tunnelConn
	exchange *exchange
	isOwner  bool       // Close ends the exchange: Outlive was called, or a protocol has it; mu guards it
	ending   sync.Mutex // locked from take until the stream is not used any more
}

var _ streams.Tunnel = (*tunnel)(nil)

func newTunnel(x *exchange) *tunnel {
	return &tunnel{tunnelConn: tunnelConn{quic: x.quic}, exchange: x}
}

// errTunnelReset is returned after a reset, and when the connection has ended.
var errTunnelReset = fmt.Errorf("sluice: the stream was reset: %w", syscall.ECONNRESET)

// SendHead implements streams.Tunnel.
func (t *tunnel) SendHead(f streams.Fields, isInterim, isLast bool) bool {
	t.writing.Lock()
	defer t.writing.Unlock()
	return !t.closed() && t.exchange.sendHead(f, isInterim, isLast) && (isLast || t.exchange.flush())
}

// Outlive implements streams.Tunnel.
func (t *tunnel) Outlive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed {
		return false
	}
	t.isOwner = true
	s := &t.exchange.stream
	_ = s.quic.SetReadDeadline(time.Time{})
	_ = s.quic.SetWriteDeadline(time.Time{})
	s.conn.outlived(t.exchange)
	return true
}

// take makes t unusable, and locks t.ending. It returns false if t is unusable already.
func (t *tunnel) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed {
		return false
	}
	t.isClosed = true
	t.ending.Lock() // it is free, because t is taken once
	return true
}

// Revoke implements streams.Tunnel.
func (t *tunnel) Revoke() {
	if t.take() {
		_ = t.quic.SetReadDeadline(clock.Past()) // the client sends no body
	} else {
		t.ending.Lock() // a Close may go on
	}
	defer t.ending.Unlock()
	t.reading.Lock()
	defer t.reading.Unlock()
	t.lockWriting()
	defer t.writing.Unlock()
}

// Close implements net.Conn. It ends the stream after what was written. Without a final head, it
// resets the stream.
func (t *tunnel) Close() error { return t.close(false) }

// Abort implements streams.Tunnel.
func (t *tunnel) Abort() { _ = t.close(true) }

func (t *tunnel) close(resets bool) error {
	if !t.take() {
		return net.ErrClosed
	}
	defer t.ending.Unlock()
	x := t.exchange
	x.quic.CancelRead(quicNoError)
	t.reading.Lock()
	defer t.reading.Unlock()
	t.lockWriting()
	defer t.writing.Unlock()
	switch {
	case x.output == outputOpen && !resets && x.flush():
		x.endOutput()
	case x.output < outputEnded || resets:
		x.reset(h3.InternalError)
	}
	x.input = inputLost
	if t.isOwner {
		x.endTunnel()
	}
	return nil
}

// Read implements net.Conn. It returns io.EOF when the client has ended its direction.
func (t *tunnel) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	if t.closed() {
		return 0, net.ErrClosed
	}
	n, err := t.exchange.readBody(p, noWaitHook)
	switch {
	case err == errReset && t.closed():
		err = net.ErrClosed
	case err == errReset:
		err = errTunnelReset
	}
	return n, err
}

// Write implements net.Conn. The final head must have been sent. After a deadline, a part of p
// may have been sent, and further calls fail.
func (t *tunnel) Write(p []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	s := &t.exchange.stream
	switch {
	case t.closed(), s.output == outputEnded:
		return 0, net.ErrClosed
	case s.send(p) && s.flush():
		return len(p), nil
	case t.closed():
		return 0, net.ErrClosed
	case errors.Is(s.writeErr, os.ErrDeadlineExceeded):
		return 0, os.ErrDeadlineExceeded
	}
	return 0, errTunnelReset
}

// CloseWrite implements streams.Tunnel.
func (t *tunnel) CloseWrite() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	s := &t.exchange.stream
	switch {
	case t.closed(), s.output == outputEnded:
		return net.ErrClosed
	case s.output != outputOpen || !s.finish():
		return errTunnelReset
	}
	return nil
}

// LocalAddr implements net.Conn.
func (t *tunnel) LocalAddr() net.Addr { return t.exchange.LocalAddr() }

// RemoteAddr implements net.Conn.
func (t *tunnel) RemoteAddr() net.Addr { return t.exchange.RemoteAddr() }

// A bodyConn is the net.Conn of a protocol that writes the body of a response. Read only waits
// until the client gives the response up, or for its deadline.
type bodyConn struct {
	tunnel
	due    time.Time // of Read; mu guards it
	change sync.Cond // due has passed, or another one was set; or the client is gone
	timer  *time.Timer
	stop   func() bool
}

func newBodyConn(x *exchange) *bodyConn {
	b := &bodyConn{}
	b.quic, b.exchange, b.isOwner = x.quic, x, true
	b.change.L = &b.mu
	b.stop = context.AfterFunc(x.quic.Context(), b.wake)
	return b
}

func (b *bodyConn) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change.Broadcast()
}

// Read implements net.Conn.
func (b *bodyConn) Read([]byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.isClosed:
			return 0, net.ErrClosed
		case b.exchange.quic.Context().Err() != nil:
			if cause := context.Cause(b.exchange.quic.Context()); cause == quic.ErrStreamClosed {
				return 0, io.EOF
			}
			return 0, errTunnelReset
		case !b.due.IsZero() && !time.Now().Before(b.due):
			return 0, os.ErrDeadlineExceeded
		}
		b.change.Wait()
	}
}

// SetReadDeadline implements net.Conn.
func (b *bodyConn) SetReadDeadline(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosed {
		return net.ErrClosed
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.due = at; !at.IsZero() {
		b.timer = time.AfterFunc(time.Until(at), b.wake)
	}
	b.change.Broadcast()
	return nil
}

// SetDeadline implements net.Conn.
func (b *bodyConn) SetDeadline(at time.Time) error {
	return errors.Join(b.SetReadDeadline(at), b.SetWriteDeadline(at))
}

// Close implements net.Conn: it ends the response.
func (b *bodyConn) Close() error {
	b.stop()
	err := b.tunnel.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.change.Broadcast()
	return err
}
