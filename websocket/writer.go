package websocket

import (
	"context"
	"io"
	"math"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// maxFragment is the largest payload of a frame of a Writer.
const maxFragment = 16 << 10

// Writer begins a message that is sent while it is written: each call of Write sends its
// bytes in one fragment or more, of at most 16 KiB, and copies them. While MaxPending bytes
// wait for the peer, Write waits. Close ends the message and must be called; it does not wait.
// Wrap a bufio.Writer around w for many small writes. The message is not compressed. Of a Text,
// the whole must be UTF-8.
//
// A connection has one open Writer at a time: the next call of Writer waits. Other messages
// never come into the middle of this one: from its first fragment on they wait for its end, and
// count for MaxPending, so that Slow applies to them when there is no more room. Do not leave a
// Writer open. Control frames are sent meanwhile, such as pings.
//
// ctx is for all calls of w. If it ends, Write returns its error after it has sent whole
// fragments only; so Close ends the connection with CodeInternal, unless nothing was sent.
// One goroutine may use w at a time.
func (c *Conn) Writer(ctx context.Context, k Kind) (w io.WriteCloser, err error) {
	if k != Text && k != Binary {
		return nil, ErrKind
	}
	mu := c.lock()
	mu.Lock()
	defer mu.Unlock()
	for {
		if err := c.mayWrite(ctx); err != nil {
			return nil, err
		}
		r := c.extra().rarely()
		if r.writer == nil {
			r.writer = &writer{conn: c, ctx: ctx, opcode: ws.Opcode(k)}
			return r.writer, nil
		}
		if err := c.awaitRoom(ctx); err != nil {
			return nil, err
		}
	}
}

// mayWrite returns why nothing can be sent; nil: it can. The lock is held.
func (c *Conn) mayWrite(ctx context.Context) error {
	if c.phase != phaseOpen {
		return c.ended()
	}
	return ctx.Err()
}

// A writer is the io.WriteCloser of a message. The lock of the Conn guards it.
type writer struct {
	conn     *Conn
	ctx      context.Context
	opcode   ws.Opcode // of the next frame
	queued   *outbox   // messages that wait for the end of this one; nil: none
	err      error     // of Write
	isClosed bool
}

// writing returns the writer whose message has begun; nil: there is none. The lock is held.
func (c *Conn) writing() *writer {
	if c.more == nil || c.more.rare() == nil {
		return nil
	}
	if w := c.more.rare().writer; w != nil && w.opcode == ws.OpContinuation {
		return w
	}
	return nil
}

// queue returns the outbox in which messages wait; nil: none do. The lock is held.
func (c *Conn) queue() *outbox {
	switch w := c.writing(); {
	case w != nil:
		return w.queued
	case c.more != nil:
		return c.more.pending
	}
	return nil
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (n int, err error) {
	c := w.conn
	c.lock().Lock()
	defer c.lock().Unlock()
	for n < len(p) && w.err == nil {
		part := p[n:min(len(p), n+maxFragment)]
		switch err := c.mayWrite(w.ctx); {
		case w.isClosed:
			return n, io.ErrClosedPipe
		case err != nil:
			w.err = err
		case c.hasOutputRoom(len(part)):
			w.send(part, false)
			n += len(part)
		default:
			w.err = c.awaitRoom(w.ctx)
		}
	}
	return n, w.err
}

// send sends a fragment; the lock is held.
func (w *writer) send(p []byte, isFinal bool) {
	c := w.conn
	h := ws.Head{Opcode: w.opcode, IsFinal: isFinal}
	if w.opcode != ws.OpContinuation {
		c.lock().sent++
		w.opcode = ws.OpContinuation
	}
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	e := c.extra()
	if s := e.inCall(); s != nil {
		s.out = ws.AppendPart(s.out, h, p)
		e.pokeLoop()
		return
	}
	c.waiting(e).addPart(h, p, waitingControl)
}

// Close implements io.Closer.
func (w *writer) Close() error {
	c := w.conn
	c.lock().Lock()
	defer c.lock().Unlock()
	switch {
	case w.isClosed:
		return io.ErrClosedPipe
	case c.phase != phaseOpen:
		w.isClosed = true
		return c.ended()
	}
	w.isClosed = true
	isBegun := c.writing() == w
	switch {
	case w.err != nil && isBegun:
		c.close(&CloseError{Code: CodeInternal, Reason: "a message is not complete"})
		return w.err
	case w.err == nil:
		w.send(nil, true)
	}
	w.end()
	return w.err
}

// end lets the messages go that have waited; the lock is held.
func (w *writer) end() {
	e, o := w.conn.more, w.queued
	e.rare().writer, w.queued = nil, nil
	if o != nil {
		if s := e.inCall(); s != nil {
			s.out, _ = o.take(s.out, math.MaxInt)
			e.pokeLoop()
		} else {
			w.conn.waiting(e).adopt(o)
		}
		releaseOutbox(o)
	}
	e.makeRoom()
}

// hold makes a message wait for the end of this one; the lock is held.
func (w *writer) hold(m *message) {
	c := w.conn
	if w.queued == nil {
		w.queued = acquireOutbox(&c.host.pendingTotal)
	}
	if m.shared != nil {
		if m.isPacked {
			c.forgetSent()
		}
		w.queued.addShared(m.shared, m.isPacked)
		return
	}
	h, p := ws.Head{Opcode: ws.Opcode(m.kind)}, m.p
	if m.packed != nil {
		c.packedIsSent(m)
		h.IsDeflated, p = true, m.packed.B
	}
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	w.queued.add(h, p)
}
