package http3

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A tunnelConn has the locks and the deadlines of a net.Conn over a stream.
type tunnelConn struct {
	quic *quic.Stream

	mu       sync.Mutex
	isClosed bool // the stream is not used any more

	reading sync.Mutex // one Read at a time; locked before mu
	writing sync.Mutex // one Write at a time; locked before mu
}

func (t *tunnelConn) closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isClosed
}

// lockWriting locks t.writing, and ends a Write that waits for the peer.
func (t *tunnelConn) lockWriting() {
	if !t.writing.TryLock() {
		_ = t.quic.SetWriteDeadline(clock.Past())
		t.writing.Lock()
	}
}

// SetDeadline implements net.Conn.
func (t *tunnelConn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (t *tunnelConn) SetReadDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed {
		return net.ErrClosed
	}
	return t.quic.SetReadDeadline(at)
}

// SetWriteDeadline implements net.Conn.
func (t *tunnelConn) SetWriteDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed {
		return net.ErrClosed
	}
	return t.quic.SetWriteDeadline(at)
}
