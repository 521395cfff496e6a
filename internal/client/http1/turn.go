package http1

import (
	"time"

	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/engine"
)

// limitsRead reports whether there is a limit for reading the response.
func (x *Exchange) limitsRead() bool { return x.ReadTimeout > 0 || x.Bounds.Deadline != 0 }

// limitError returns the error for a deadline that could not be set before the
// request was sent: an idle connection was closed by this process.
func (x *Exchange) limitError(err error) error {
	if x.Conn.takesTurn {
		return pool.ErrNotQuiet
	}
	return err
}

// runTurn sends Content and reads the response, in one call of the connection as far as
// possible. While it waits, it has no input: thousands of requests that wait would each have
// their buffers, and none would be in the processor's cache.
func (x *Exchange) runTurn() error {
	c := x.Conn
	x.isSent = true // writing never waits
	if err := c.limitTurn(x.Bounds, x.ReadTimeout); err != nil {
		return x.limitError(err)
	}
	var holder engine.Holder
	if own := x.guard.own; own != nil {
		holder = own.Holder()
	}
	written, err := c.turn.Take(x.Content, holder)
	c.hasTurned = written > 0
	switch {
	case written < len(x.Content) && err == nil: // the socket has no room for more
		return x.finishTurn(x.Content[written:])
	case written < len(x.Content):
		c.writeErr = err
		return err
	case err != nil:
		return x.Message.Unanswered(err)
	}
	return x.Message.Receive(&x.br.Reader, &x.br.last)
}

// arrived reads the beginning of the response into an input, for turn.
func (c *Conn) arrived() error {
	x := c.exchange
	x.br = acquireInput(c, x.ReadBuffer)
	c.hasArrived = true
	_, err := x.br.Peek(1)
	c.hasArrived = false
	if err == pool.ErrNothingArrived {
		releaseInput(x.br)
		x.br = nil
	}
	return err
}

// finishTurn is the rest of runTurn if the socket has no room for all of the request.
func (x *Exchange) finishTurn(rest []byte) error {
	c := x.Conn
	x.isSent = false
	c.NoteDeadline()
	err := c.Net.SetWriteDeadline(time.Time{}) // one that an earlier request has left
	c.interruptFor(x.Bounds)
	if err == nil {
		err = c.setWriteLimit(x.Bounds, x.WriteTimeout)
	}
	if err == nil {
		_, err = c.Write(rest)
	}
	if err != nil {
		c.writeErr = err
		return err
	}
	x.br = acquireInput(c, x.ReadBuffer)
	return x.receive()
}
