package sluice

import (
	"sync"
	"sync/atomic"
)

// ctxWire guards the exchange of a RequestCtx at the end of the request: a
// handler that has timed out may still be using it. The zero value is ready.
type ctxWire struct {
	// Mutex is held while a handler uses the exchange, even while a write waits
	// for the client.
	sync.Mutex
	// isDetached is set once: the exchange no longer belongs to the RequestCtx.
	isDetached atomic.Bool
	// isWriting is set while the holder of the Mutex may wait for the client;
	// server.Exchange.InterruptWrite can then end the wait.
	isWriting atomic.Bool
}

// beginWrite locks the wire for writing to the client, until endWrite. It
// returns ErrNilConnection if there is no exchange any more, or another response than
// that of ctx will be sent.
//
// sever relies on the order: isWriting is set before isDetached is read.
func (ctx *RequestCtx) beginWrite() error {
	w := &ctx.wire
	w.Lock()
	if ctx.server == nil || w.isDetached.Load() || ctx.timeoutResponse.Load() != nil {
		w.Unlock()
		return ErrNilConnection
	}
	ctx.exchange.Arm()
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

// sever takes the exchange away from a handler that keeps running, and returns
// with the wire locked. It first interrupts a write that waits for the client:
// the client may never read, and nothing can be sent after a partial write.
// hasBroken says that a write was interrupted.
func (ctx *RequestCtx) sever() (hasBroken bool) {
	w := &ctx.wire
	w.isDetached.Store(true)
	if w.TryLock() {
		return false
	}
	if w.isWriting.Load() {
		hasBroken = true
		ctx.exchange.InterruptWrite()
	}
	w.Lock()
	return hasBroken
}
