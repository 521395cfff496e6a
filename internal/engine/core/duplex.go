//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"runtime"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// feedBlocked feeds a protocol that IsDuplex while its output waits for room.
func (c *conn) feedBlocked() engine.Next {
	var until int64
	for pass := 1; c.TakesInput(); pass++ {
		if len(c.Unread) == 0 {
			if c.Stops() {
				return engine.Read
			}
			c.dropHeld()
			room := c.Room()
			n, err := c.receive(room)
			switch {
			case err != nil && err != io.EOF:
				c.Fail(err)
				return engine.Abort
			case n == 0: // the end of the input is seen again when the output is written
				return engine.Read
			}
			c.Unread = room[:n]
		}
		used, next := c.FeedBlocked(c.Unread)
		c.Unread = c.Unread[used:]
		if next == engine.Abort || len(c.Unread) > 0 {
			return next
		}
		if pass%yieldAfter == 0 {
			until = c.loop.spell.yield(until, clock.Nanos, runtime.Gosched)
		}
	}
	return engine.Read
}
