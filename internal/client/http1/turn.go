package http1

import (
	"io"
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
// possible.
func (x *Exchange) runTurn() error {
	c := x.Conn
	x.isSent = true // writing never waits
	if err := c.setReadLimit(x.Bounds, x.ReadTimeout); err != nil {
		return x.limitError(err)
	}
	c.unsent = x.Content
	_, err := x.br.Peek(1)
	switch {
	case err == nil:
		return x.Message.Receive(&x.br.Reader)
	case c.writeErr != nil:
		return c.writeErr
	}
	return x.Message.Unanswered(err)
}

// takeTurn writes Conn.unsent, and reads the beginning of the response into p.
func (x *Exchange) takeTurn(p []byte) (int, error) {
	c := x.Conn
	out := c.unsent
	c.unsent = nil
	var holder engine.Holder
	if own := x.guard.own; own != nil {
		holder = own.Holder()
	}
	written, n, err := c.turn.Take(out, p, holder)
	c.written.Add(int64(written))
	switch {
	case err == nil && written < len(out): // the socket has no room for more
		return x.finishTurn(out[written:], p)
	case err == nil && n == 0:
		return 0, io.EOF
	case written < len(out):
		c.writeErr = err
	}
	return n, err
}

// finishTurn is the rest of takeTurn if the socket has no room for all of the
// request.
func (x *Exchange) finishTurn(rest, p []byte) (int, error) {
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
		return 0, err
	}
	x.isSent = true
	if err := c.setReadLimit(x.Bounds, x.ReadTimeout); err != nil {
		return 0, err
	}
	return c.Net.Read(p)
}
