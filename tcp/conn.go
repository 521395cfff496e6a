package tcp

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// A Conn is the connection that a Server passes to its callbacks. Use it only
// until the callback returns, and do not pass it to other goroutines; use Sender
// for that. Callbacks of one connection are never called concurrently.
type Conn struct {
	conn     engine.Conn // nil: asleep, or released
	acceptor *acceptor
	out      []byte      // the reply so far, while a callback runs
	rest     *buf.Buffer // owned: input that the handler has not used; nil: none

	state  any
	sender *Sender
	detach func(net.Conn)
	err    error // why the connection ends

	began       int64 // when the message in rest began, in clock.Nanos
	idleTimeout time.Duration
	readTimeout time.Duration
	id          uint64 // the key in acceptor.server.sleepers; 0: none
	local       net.Addr
	remote      net.Addr

	phase phase
	// ownTimeouts is set when SetIdleTimeout or SetReadTimeout was called.
	ownTimeouts bool
	isOpened    bool              // OnOpen was called, or there is none
	owned       invariants.Pooled // by the session, until it ends or sleeps
}

// autoFlush is the size of a reply from which Write flushes it.
const autoFlush = 64 << 10

// Write appends a copy of p to the reply, which is sent when the callback returns.
// If the reply would exceed 64 KiB, Write first sends what it has, as Flush does.
// Then it may wait for the peer, at most for Server.WriteTimeout, and may fail.
// After the connection's end, it returns ErrClosed or the error of a failed write.
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

// AvailableBuffer returns an empty slice that uses the free capacity of the
// reply's buffer. Append to it and pass the result to the next Write. If the
// capacity was sufficient, the data is already in place.
func (c *Conn) AvailableBuffer() []byte { return c.out[len(c.out):] }

// Flush sends what was written so far, and waits until the system has accepted it,
// at most for Server.WriteTimeout. A failed Flush ends the connection.
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

// endError is the error of writes after the connection's end.
func (c *Conn) endError() error {
	if c.phase == phaseAborted && c.err != nil {
		return c.err
	}
	return ErrClosed
}

// State returns the value of the last SetState; nil if there was none.
func (c *Conn) State() any { return c.state }

// SetState retains state until the connection's end.
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

// ProxyInfo returns what a proxy has said of the connection, see sluice.RequestCtx.ProxyInfo. ok
// is false if it has said nothing, and in OnClose.
func (c *Conn) ProxyInfo() (info sluice.ProxyInfo, ok bool) {
	if c.conn == nil || c.phase >= phaseEnded {
		return info, false
	}
	return sluice.ProxyInfoOf(c.conn.NetConn())
}

// TLS returns the state of the connection's TLS. It is nil without TLS, and in
// OnClose.
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

// SetIdleTimeout replaces Server.IdleTimeout for this connection. Zero or less
// means no time-out.
func (c *Conn) SetIdleTimeout(timeout time.Duration) {
	c.idleTimeout, c.ownTimeouts = max(timeout, 0), true
}

// SetReadTimeout replaces Server.ReadTimeout for this connection. Zero or less
// means no time-out.
func (c *Conn) SetReadTimeout(timeout time.Duration) {
	c.readTimeout, c.ownTimeouts = max(timeout, 0), true
}

// SetWriteTimeout replaces Server.WriteTimeout for this connection. Zero or less
// means no time-out.
func (c *Conn) SetWriteTimeout(timeout time.Duration) {
	if c.phase < phaseEnded {
		c.conn.SetWriteTimeout(max(timeout, 0)) // engines keep it
	}
}

// Sender returns the connection's Sender, with which other goroutines may write to
// it. Every call returns the same one. A Sender costs a few hundred bytes until
// the connection ends.
func (c *Conn) Sender() *Sender {
	if c.sender == nil {
		c.sender = &Sender{
			acceptor:   c.acceptor,
			maxPending: c.acceptor.cfg.maxPending,
			remote:     c.RemoteAddr(),
			local:      c.LocalAddr(),
		}
		if c.phase >= phaseEnded {
			c.sender.end(nil)
		} else {
			c.sender.prompter, c.sender.target = c.conn.Prompter(), c.conn.Target()
		}
	}
	return c.sender
}

// Detach makes f the owner of the connection. After the callback has returned and
// the reply was sent, the server calls f on a separate goroutine. No other callback
// is called any more, except OnClose after f has returned. Reads on f's net.Conn
// begin with the input that the handler has not used. f must close it. If the
// callback returns an error, the connection is closed and f is not called.
func (c *Conn) Detach(f func(net.Conn)) { c.detach = f }
