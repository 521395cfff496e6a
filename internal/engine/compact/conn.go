package compact

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

const (
	// inputSize is how much is received at once, unless a record is larger.
	inputSize = 4<<10 + tls13.Overhead
	// smallInput is the size of the smallest buffer that waits with a part of a record. A
	// larger one has at most inputGrowth times the size of that part.
	smallInput  = 512
	inputGrowth = 4
	// smallRecord is the size of the first records, so that the peer can use the data of each
	// packet as it comes (ten packets are on their way at first, RFC 6928). Then records have
	// the full size.
	smallRecord   = 1400 - tls13.Overhead
	smallRecords  = 10 * smallRecord
	writeAtOnce   = 4 * tls13.MaxData
	alertPatience = 5 * time.Second
)

// A Conn is a TLS connection after its handshake, over another net.Conn. What that one returns
// as a temporary error of a Read is returned, and the next Read goes on. The methods may be
// called concurrently, as those of a *tls.Conn.
type Conn struct {
	below net.Conn
	facts *Facts
	ended atomic.Bool // facts are dropped

	reading  sync.Mutex
	input    *buf.Buffer // received; nil: nothing is
	received []byte      // of input, protected
	data     []byte      // of input, opened

	writing sync.Mutex
	sent    int   // since the beginning, up to smallRecords
	failure error // of a write, of which the peer may have a part: nothing can follow

	layer tls13.Layer // Next with reading, the rest with writing
}

var _ net.Conn = (*Conn)(nil)

// NewConn returns the connection over below that goes on from a state, which it erases. facts
// belong to it from then on.
func NewConn(below net.Conn, state *tls13.State, facts *Facts) (*Conn, error) {
	c := &Conn{below: below, facts: facts}
	err := c.layer.Start(tls13.Server, state)
	state.Erase()
	return c, err
}

// CanPause reports whether Pause may be called: nothing has come in part, nothing is left to
// be read, and both sides may send. No other call may run meanwhile.
func (c *Conn) CanPause() bool { return c.input == nil && c.failure == nil && c.layer.CanStop() }

// Rest releases the ciphers until the next use, unless a call is using them.
func (c *Conn) Rest() {
	if !c.reading.TryLock() {
		return
	}
	defer c.reading.Unlock()
	if c.writing.TryLock() {
		defer c.writing.Unlock()
		c.layer.Rest()
	}
}

// Pause stores in state what NewConn needs to go on. The connection must not be used any more.
func (c *Conn) Pause(state *tls13.State) *Facts {
	c.layer.Stop(state)
	return c.facts
}

// End erases the keys, after the calls that are using them. The connection must not be used
// any more.
func (c *Conn) End() {
	if !c.ended.Swap(true) {
		c.facts.Drop()
	}
	if c.reading.TryLock() {
		if c.writing.TryLock() {
			c.eraseLocked()
			return
		}
		c.reading.Unlock()
	}
	go func() {
		c.reading.Lock()
		c.writing.Lock()
		c.eraseLocked()
	}()
}

// eraseLocked erases everything, and unlocks both directions.
func (c *Conn) eraseLocked() {
	defer c.reading.Unlock()
	defer c.writing.Unlock()
	c.dropInput()
	c.layer.Erase()
}

// Facts returns the connection's.
func (c *Conn) Facts() *Facts { return c.facts }

// ConnectionState returns what crypto/tls has said of the connection, see Facts.ConnectionState.
func (c *Conn) ConnectionState() tls.ConnectionState { return c.facts.ConnectionState() }

// NetConn returns the connection below, as *tls.Conn does.
func (c *Conn) NetConn() net.Conn { return c.below }

// Read implements net.Conn. It returns the data of one record.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for len(c.data) == 0 {
		data, n, err := c.layer.Next(c.received)
		c.received = c.received[n:]
		switch {
		case err == tls13.ErrEnd:
			c.dropInput()
			return 0, io.EOF
		case err == tls13.ErrState: // erased
			return 0, net.ErrClosed
		case err != nil:
			return 0, c.refuse(err)
		case n > 0:
			c.data = data
		default:
			if err := c.fill(); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, c.data)
	clear(c.data[:n]) // the buffer goes to others
	if c.data = c.data[n:]; len(c.data) == 0 && len(c.received) == 0 {
		c.dropInput()
	}
	return n, nil
}

// refuse tells the peer of a violation. The error is that of Read.
func (c *Conn) refuse(err error) error {
	c.dropInput()
	var violation *tls13.Violation
	if errors.As(err, &violation) {
		c.writing.Lock()
		defer c.writing.Unlock()
		_, _ = c.below.Write(c.layer.AppendAlert(nil, violation.Alert)) // the peer may be gone
	}
	return err
}

// fill receives more of a record. The buffer grows with what has come, so that the head of a
// long record takes no room for the rest.
func (c *Conn) fill() error {
	need, err := tls13.Need(c.received)
	if err != nil {
		return c.refuse(err)
	}
	have := len(c.received)
	need = min(need, max(inputSize, inputGrowth*have))
	switch {
	case c.input == nil:
		c.input = buf.Get(inputSize)
		c.received = c.input.B[:0]
	case have == 0:
		c.received = c.input.B[:0]
	case need > cap(c.input.B):
		c.moveInput(need)
	case need > cap(c.received):
		c.received = append(c.input.B[:0], c.received...)
	}
	n, err := c.below.Read(c.received[have:cap(c.received)])
	c.received = c.received[:have+n]
	switch {
	case n > 0:
		return nil
	case have == 0:
		c.dropInput()
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case cap(c.input.B) > max(smallInput, inputGrowth*have):
		c.moveInput(have) // the next Read may be long after this one
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// moveInput moves what was received to another buffer with room for size bytes.
func (c *Conn) moveInput(size int) {
	other := buf.Get(size)
	c.received = append(other.B[:0], c.received...)
	c.input.Release()
	c.input, c.data = other, nil
}

func (c *Conn) dropInput() {
	if c.input != nil {
		clear(c.data)
		c.input.Release()
		c.input, c.received, c.data = nil, nil, nil
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (written int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for {
		if c.failure != nil {
			return written, c.failure
		}
		part := p[:min(len(p), smallRecords-c.sent+writeAtOnce)]
		if err := c.write(part); err != nil {
			return written, err
		}
		written += len(part)
		if p = p[len(part):]; len(p) == 0 {
			return written, nil
		}
	}
}

// write sends data. Without data, it checks whether it could.
func (c *Conn) write(data []byte) error {
	small := min(len(data), smallRecords-c.sent)
	out := buf.Get(len(data) + (small/smallRecord+len(data)/tls13.MaxData+4)*tls13.Overhead)
	defer out.Release()
	var err error
	if out.B, err = c.layer.Append(out.B, data[:small], smallRecord); err == nil {
		out.B, err = c.layer.Append(out.B, data[small:], tls13.MaxData)
	}
	c.sent += small
	if err != nil || len(out.B) == 0 {
		return err
	}
	_, c.failure = c.below.Write(out.B)
	return c.failure
}

// CloseWrite sends the closing alert. Reads go on.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.closeWriteLocked()
}

func (c *Conn) closeWriteLocked() error {
	if c.failure != nil {
		return c.failure
	}
	if alert := c.layer.AppendClose(nil); len(alert) > 0 {
		_, c.failure = c.below.Write(alert)
	}
	return c.failure
}

// Close implements net.Conn: it sends the closing alert, unless a Write waits, if there is
// room within some seconds. The keys are erased when concurrent calls have returned.
func (c *Conn) Close() error {
	if c.writing.TryLock() {
		_ = c.below.SetWriteDeadline(time.Now().Add(alertPatience))
		_ = c.closeWriteLocked()
		c.failure = net.ErrClosed
		c.writing.Unlock()
	}
	err := c.below.Close()
	c.End()
	return err
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.below.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.below.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.below.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.below.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.below.SetWriteDeadline(t) }
