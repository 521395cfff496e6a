package sluice

import (
	"context"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// Done returns a channel that is closed when the client disconnects while the
// handler runs, when the request has ended, or when the server shuts down. After
// Hijack, the request ends with the hijack handler.
// Outside a server it is never closed. The first call costs an allocation and
// makes the engine watch the connection.
//
// Goroutines that the handler started may call Done and the other context
// methods even after the handler has returned.
func (ctx *RequestCtx) Done() <-chan struct{} { return ctx.doneState().Done() }

// Err returns nil until Done is closed, and context.Canceled afterwards.
func (ctx *RequestCtx) Err() error { return ctx.doneState().Err() }

// Deadline implements context.Context; a request has none.
func (ctx *RequestCtx) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value returns the user value for key, as UserValue does.
func (ctx *RequestCtx) Value(key any) any {
	if _, isOwn := key.(upgrade.Key); isOwn {
		return (*taker)(ctx)
	}
	return ctx.UserValue(key)
}

// A cancelState is what a context.Context says of its end.
type cancelState struct {
	channel chan struct{}
	set     *cancelSet // nil: none

	mu  sync.Mutex
	err error
}

// newCancelState returns a cancelState that has not ended.
func newCancelState() *cancelState { return &cancelState{channel: make(chan struct{})} }

// Done returns the channel that Cancel closes.
func (d *cancelState) Done() <-chan struct{} { return d.channel }

// Err returns nil, and context.Canceled after Cancel.
func (d *cancelState) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Cancel wakes the waiters. Further calls do nothing.
func (d *cancelState) Cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = context.Canceled
		close(d.channel)
	}
}

// End removes d from its set, and cancels it.
func (d *cancelState) End() {
	if d.set != nil {
		d.set.remove(d)
	}
	d.Cancel()
}

// A cancelSet holds states that end together. The zero value is empty and open.
type cancelSet struct {
	mu       sync.Mutex
	states   map[*cancelState]struct{}
	isClosed bool
}

// Add adds d, which no other goroutine uses yet, until End. It cancels d if s is closed.
func (s *cancelSet) Add(d *cancelState) {
	d.set = s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		d.Cancel()
		return
	}
	if s.states == nil {
		s.states = make(map[*cancelState]struct{})
	}
	s.states[d] = struct{}{}
}

func (s *cancelSet) remove(d *cancelState) {
	s.mu.Lock()
	delete(s.states, d)
	s.mu.Unlock()
}

// IsClosed reports whether Close was called, and not Open after it.
func (s *cancelSet) IsClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isClosed
}

// Len returns the number of states. Tests look with it whether all have ended.
func (s *cancelSet) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states)
}

// Close cancels every state, and every one that is added until Open is called.
func (s *cancelSet) Close() {
	s.mu.Lock()
	s.isClosed = true
	states := s.states
	s.states = nil
	s.mu.Unlock()
	for d := range states {
		d.Cancel()
	}
}

// Open ends Close.
func (s *cancelSet) Open() {
	s.mu.Lock()
	s.isClosed = false
	s.mu.Unlock()
}
