package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
)

// endingEngine is an Engine that only ends.
type endingEngine struct {
	Engine
	err error
}

func (e *endingEngine) Shutdown(context.Context) error { return e.err }

// closingListener is a Listener that only closes.
type closingListener struct {
	net.Listener
	err error
}

func (l closingListener) Close() error { return l.err }

// TestShutdownTriesAgain: an engine that has not ended is shut down again by the next call;
// the error of a listener is returned if there is no other one.
func TestShutdownTriesAgain(t *testing.T) {
	var s Serving
	slow := &endingEngine{err: context.DeadlineExceeded}
	bad := errors.New("bad listener")
	var closed, broken, gone net.Listener = closingListener{err: net.ErrClosed}, closingListener{err: bad}, closingListener{err: errors.New("not asked")}
	s.Lock()
	s.Engine = slow
	for _, ln := range []*net.Listener{&closed, &broken, &gone} {
		s.BeginLocked(ln)
	}
	s.Unlock()
	s.End(&gone)
	var told []Engine
	note := func(e Engine) { told = append(told, e) }
	if err := s.Shutdown(t.Context(), note, note); err != context.DeadlineExceeded {
		t.Errorf("the engine takes too long: %v", err)
	}
	if listeners, draining := s.Counts(); listeners != 0 || draining != 1 || len(told) != 2 || told[0] != slow || told[1] != slow {
		t.Errorf("%d listeners, %d engines remain; told %v", listeners, draining, told)
	}
	slow.err = nil
	s.Lock()
	s.BeginLocked(&broken)
	s.Unlock()
	if err := s.Shutdown(t.Context(), note, note); err != bad {
		t.Errorf("the listener fails: %v", err)
	}
	if _, draining := s.Counts(); draining != 0 || len(told) != 3 || told[2] != nil {
		t.Errorf("%d engines remain; told %v", draining, told)
	}
}

func TestServeError(t *testing.T) {
	other := errors.New("other")
	for err, want := range map[error]error{
		nil: nil, io.EOF: nil, ErrShutdown: nil, other: other, fmt.Errorf("accept: %w", net.ErrClosed): nil,
	} {
		if got := ServeError(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
