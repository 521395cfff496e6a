package sluice

import (
	"context"
	"testing"
)

// TestCancelSet: Close ends what is in the set, and what is added until Open. Nothing stays in it.
func TestCancelSet(t *testing.T) {
	var s cancelSet
	inside, ended, late, reopened := newCancelState(), newCancelState(), newCancelState(), newCancelState()
	s.Add(inside)
	s.Add(ended)
	ended.End()
	if inside.Err() != nil || ended.Err() != context.Canceled || len(s.states) != 1 || s.IsClosed() {
		t.Errorf("%v, %v, %d states", inside.Err(), ended.Err(), len(s.states))
	}
	s.Close()
	s.Add(late)
	<-inside.Done()
	<-late.Done()
	if late.Err() != context.Canceled || len(s.states) != 0 || !s.IsClosed() {
		t.Errorf("%v, %d states", late.Err(), len(s.states))
	}
	s.Open()
	s.Add(reopened)
	inside.End()
	late.Cancel()
	if reopened.Err() != nil || len(s.states) != 1 || s.IsClosed() {
		t.Errorf("after Open: %v, %d states", reopened.Err(), len(s.states))
	}
}
