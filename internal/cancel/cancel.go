// Package cancel holds the states of contexts that end with a request, with a client, or
// with a server.
package cancel

import (
	"context"
	"sync"
)

// A State is what a context.Context says of its end.
type State struct {
	channel chan struct{}
	set     *Set // nil: none

	mu  sync.Mutex
	err error
}

// New returns a State that has not ended.
func New() *State { return &State{channel: make(chan struct{})} }

// Done returns the channel that Cancel closes.
func (d *State) Done() <-chan struct{} { return d.channel }

// Err returns nil, and context.Canceled after Cancel.
func (d *State) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Cancel wakes the waiters. Further calls do nothing.
func (d *State) Cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = context.Canceled
		close(d.channel)
	}
}

// End removes d from its Set, and cancels it.
func (d *State) End() {
	if d.set != nil {
		d.set.remove(d)
	}
	d.Cancel()
}

// A Set holds States that end together. The zero value is empty and open.
type Set struct {
	mu       sync.Mutex
	states   map[*State]struct{}
	isClosed bool
}

// Add adds d, which no other goroutine uses yet, until End. It cancels d if s is closed.
func (s *Set) Add(d *State) {
	d.set = s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		d.Cancel()
		return
	}
	if s.states == nil {
		s.states = make(map[*State]struct{})
	}
	s.states[d] = struct{}{}
}

func (s *Set) remove(d *State) {
	s.mu.Lock()
	delete(s.states, d)
	s.mu.Unlock()
}

// IsClosed reports whether Close was called, and not Open after it.
func (s *Set) IsClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isClosed
}

// Len returns the number of States. Tests look with it whether all have ended.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states)
}

// Close cancels every State, and every one that is added until Open is called.
func (s *Set) Close() {
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
func (s *Set) Open() {
	s.mu.Lock()
	s.isClosed = false
	s.mu.Unlock()
}
