//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"runtime"

	"github.com/sluicehttp/sluice/internal/engine"
)

// takesInput tells whether the connection, whose output waits for room, is fed
// meanwhile: it is, until the protocol has answered something else than Read or
// Run.
func (c *conn) takesInput() bool {
	return c.protocol != nil && c.can.Has(engine.IsDuplex) && (c.after == engine.Read || c.after == engine.Run)
}

// feedBlocked feeds a protocol that IsDuplex while its output waits for room. What
// Feed answers is done when the output is written.
func (c *conn) feedBlocked() engine.Next {
	for pass := 1; c.takesInput(); pass++ {
		in := c.unread
		if len(in) == 0 {
			c.dropHeld()
			room := c.room()
			n, err := c.receive(room)
			switch {
			case err != nil && err != io.EOF:
				c.fail(err)
				return engine.Abort
			case n == 0: // the end of the input is seen again when the output is written
				c.isDrained = true
				return engine.Read
			}
			c.isDrained = n < len(room) && c.tlsConn == nil
			in = room[:n]
		}
		used, next := c.protocol.Feed(in)
		c.isFed = true
		c.unread = in[used:]
		switch {
		case next == engine.Abort:
			return next
		case next != engine.Read:
			c.after = next
		case used == 0:
			return engine.Read // against Feed's contract; do not spin
		}
		if pass%yieldAfter == 0 {
			runtime.Gosched()
		}
	}
	c.holdUnread()
	return engine.Read
}
