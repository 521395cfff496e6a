package sluice

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

// ctxWire guards the connection of a RequestCtx at the end of the request: a
// handler that has timed out may still be using it. The zero value is ready.
type ctxWire struct {
	// Mutex is held while a handler uses the connection, even while a write waits
	// for the client.
	sync.Mutex
	// isDetached is set once: the connection no longer belongs to the request.
	isDetached atomic.Bool
	// isWriting is set while the holder of the Mutex may wait for the client;
	// socket can then interrupt the wait.
	isWriting atomic.Bool
	socket    atomic.Pointer[engine.BlockingConn] // of this Run; nil: not requested yet
}

// beginWrite locks the wire for writing to the connection, until endWrite. It
// returns ErrNilConnection if there is no connection any more.
//
// sever relies on the order: isWriting is set before isDetached is read.
func (ctx *RequestCtx) beginWrite() error {
	w := &ctx.wire
	w.Lock()
	if ctx.conn == nil || w.isDetached.Load() {
		w.Unlock()
		return ErrNilConnection
	}
	if w.socket.Load() == nil {
		b, _ := ctx.conn.conn.Blocking().(*engine.BlockingConn)
		w.socket.Store(b)
	}
	w.isWriting.Store(true)
	if w.isDetached.Load() {
		ctx.endWrite()
		return ErrNilConnection
	}
	return nil
}

func (ctx *RequestCtx) endWrite() {
	ctx.wire.isWriting.Store(false)
	ctx.wire.Unlock()
}

// sever takes the connection away from a handler that keeps running, and
// returns with the wire locked. It first interrupts a write that waits for the
// client: the client may never read, and nothing can be sent after a partial
// write. hasBroken says that a write was interrupted.
func (w *ctxWire) sever() (hasBroken bool) {
	w.isDetached.Store(true)
	if w.TryLock() {
		return false
	}
	if w.isWriting.Load() {
		hasBroken = true
		if b := w.socket.Load(); b != nil {
			b.BreakWrite()
		}
	}
	w.Lock()
	return hasBroken
}
