package sluice

import (
	"context"
	"sync"
	"time"
)

// doneState is the context.Context state of a request. It is allocated when
// Done or Err is first called; a request without such a call pays nothing.
type doneState struct {
	channel chan struct{}
	set     *doneSet

	mu  sync.Mutex
	err error
}

// cancel closes the channel once.
func (d *doneState) cancel(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
		close(d.channel)
	}
}

// end is called when the request ends. It wakes the waiters. The RequestCtx
// keeps this state and is therefore never used for another request.
func (d *doneState) end() {
	if d.set != nil {
		d.set.remove(d)
	}
	d.cancel(context.Canceled)
}

// doneSet holds the states that a server's Shutdown cancels.
type doneSet struct {
	mu       sync.Mutex
	states   map[*doneState]struct{}
	isClosed bool
}

// add registers d. It returns false if the server is shutting down.
func (s *doneSet) add(d *doneState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return false
	}
	if s.states == nil {
		s.states = make(map[*doneState]struct{})
	}
	s.states[d] = struct{}{}
	return true
}

// isOver reports whether the server is shutting down, or has.
func (s *doneSet) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isClosed
}

func (s *doneSet) remove(d *doneState) {
	s.mu.Lock()
	delete(s.states, d)
	s.mu.Unlock()
}

// close cancels every state, and every state that is added until open is
// called.
func (s *doneSet) close() {
	s.mu.Lock()
	s.isClosed = true
	states := s.states
	s.states = nil
	s.mu.Unlock()
	for d := range states {
		d.cancel(context.Canceled)
	}
}

func (s *doneSet) open() {
	s.mu.Lock()
	s.isClosed = false
	s.mu.Unlock()
}

// doneState returns the state of ctx, which it creates on the first call.
func (ctx *RequestCtx) doneState() *doneState {
	if d := ctx.done.Load(); d != nil {
		return d
	}
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	if d := ctx.done.Load(); d != nil {
		return d
	}
	d := &doneState{channel: make(chan struct{})}
	ctx.done.Store(d)
	switch {
	case ctx.server == nil:
	case ctx.wire.isDetached.Load():
		d.cancel(context.Canceled)
	default:
		d.set = &ctx.server.done
		if !d.set.add(d) {
			d.cancel(context.Canceled)
		}
		ctx.exchange.onPeerGone(func() { d.cancel(context.Canceled) })
	}
	return d
}

// Done returns a channel that is closed when the client disconnects while the
// handler runs, when the request has ended, or when the server shuts down.
// Outside a server it is never closed. The first call costs an allocation and
// makes the engine watch the connection.
//
// Goroutines that the handler started may call Done and the other context
// methods even after the handler has returned.
func (ctx *RequestCtx) Done() <-chan struct{} { return ctx.doneState().channel }

// Err returns nil until Done is closed, and context.Canceled afterwards.
func (ctx *RequestCtx) Err() error {
	d := ctx.doneState()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Deadline implements context.Context; a request has none.
func (ctx *RequestCtx) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value returns the user value for key, as UserValue does.
func (ctx *RequestCtx) Value(key any) any { return ctx.UserValue(key) }
