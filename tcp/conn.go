package tcp

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// A Conn is a connection as the callbacks of a Server see it. It is theirs
// until they return, and must not be used by other goroutines; see Sender for
// what may be. Callbacks of one connection are never called at the same time.
type Conn struct {
	conn     engine.Conn // nil: asleep, or released
	acceptor *acceptor
	out      []byte      // the reply so far, while a callback runs
	rest     *buf.Buffer // input that the handler has not used; nil: none

	state  any
	sender *Sender
	detach func(net.Conn)
	err    error // why the connection ends

	began       int64 // when the message in rest began, in clock.Nanos
	idleTimeout time.Duration
	readTimeout time.Duration
	id          uint64 // in acceptor.server.sleepers; 0: not there
	local       net.Addr
	remote      net.Addr

	phase phase
	// ownTimeouts is set when they are not the server's.
	ownTimeouts bool
	isOpened    bool              // OnOpen was called, or there is none
	owned       invariants.Pooled // by the session, until it ends or sleeps
}

// autoFlush is how much of a reply is kept before Write writes it out.
const autoFlush = 64 << 10

// Write appends p to the reply, which is sent when the callback returns, and
// copies p. A reply that grows large is sent while it is being written; then
// Write waits for the peer, for Server.WriteTimeout at most, and may fail.
func (c *Conn) Write(p []byte) (int, error) {
	if c.phase >= phaseEnded {
		return 0, c.endError()
	}
	if len(c.out)+len(p) > autoFlush && len(c.out) > 0 {
		if err := c.Flush(); err != nil {
			return 0, err
		}
	}
	c.out = append(c.out, p...)
	return len(p), nil
}

// WriteString is Write for strings.
func (c *Conn) WriteString(s string) (int, error) {
	if len(c.out)+len(s) <= autoFlush && c.phase < phaseEnded {
		c.out = append(c.out, s...)
		return len(s), nil
	}
	return c.Write([]byte(s))
}

// AvailableBuffer returns an empty slice with room behind it. It is meant to be
// appended to and given to the next Write, which then copies nothing far.
func (c *Conn) AvailableBuffer() []byte { return c.out[len(c.out):] }

// Flush sends what was written so far and waits until the system has taken it,
// for Server.WriteTimeout at most.
func (c *Conn) Flush() error {
	if c.phase >= phaseEnded {
		return c.endError()
	}
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		c.phase, c.err = phaseAborted, err
	}
	return err
}

// endError is what callbacks get that write after the end.
func (c *Conn) endError() error {
	if c.phase == phaseAborted && c.err != nil {
		return c.err
	}
	return ErrClosed
}

// State returns what SetState got last; nil at first.
func (c *Conn) State() any { return c.state }

// SetState keeps state with the connection until its end.
func (c *Conn) SetState(state any) { c.state = state }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr {
	if c.remote == nil && c.conn != nil {
		c.remote = c.conn.RemoteAddr()
	}
	return c.remote
}

// LocalAddr returns the server's address on this connection.
func (c *Conn) LocalAddr() net.Addr {
	if c.local == nil && c.conn != nil {
		c.local = c.conn.LocalAddr()
	}
	return c.local
}

// TLS describes the connection's TLS; nil if it has none, and in OnClose.
func (c *Conn) TLS() *tls.ConnectionState {
	if c.conn == nil || c.phase >= phaseEnded || c.conn.IsSocket() {
		return nil
	}
	conn, ok := c.conn.NetConn().(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := conn.ConnectionState()
	return &state
}

// SetIdleTimeout replaces Server.IdleTimeout for this connection; 0: none.
func (c *Conn) SetIdleTimeout(timeout time.Duration) {
	c.idleTimeout, c.ownTimeouts = max(timeout, 0), true
}

// SetReadTimeout replaces Server.ReadTimeout for this connection; 0: none.
func (c *Conn) SetReadTimeout(timeout time.Duration) {
	c.readTimeout, c.ownTimeouts = max(timeout, 0), true
}

// SetWriteTimeout replaces Server.WriteTimeout for this connection; 0: none.
func (c *Conn) SetWriteTimeout(timeout time.Duration) {
	if c.phase < phaseEnded {
		c.conn.SetWriteTimeout(max(timeout, 0)) // engines keep it
	}
}

// Sender returns what other goroutines may write to this connection with, the
// same one each time. The connection then costs a few hundred bytes more until
// it ends.
func (c *Conn) Sender() *Sender {
	if c.sender == nil {
		c.sender = &Sender{
			maxPending: c.acceptor.cfg.maxPending,
			remote:     c.RemoteAddr(),
			local:      c.LocalAddr(),
		}
		if c.phase >= phaseEnded {
			c.sender.end(nil)
		} else {
			c.sender.prompter = c.conn.Prompter()
		}
	}
	return c.sender
}

// Detach has the server let go of the connection: when the callback has
// returned, and the reply was sent, f gets the connection, on a goroutine of
// its own, and no callback but OnClose is called any more, which happens when f
// has returned. Reads on f's connection begin with the input that the handler
// has not used. Closing it is up to f. An error that the callback returns wins:
// then the connection is closed and f not called.
func (c *Conn) Detach(f func(net.Conn)) { c.detach = f }
