package tcp

import (
	"net"
	"testing"
)

// countedListener counts its Closes.
type countedListener struct {
	net.Listener
	closes int
}

// Close implements net.Listener.
func (l *countedListener) Close() error {
	l.closes++
	return nil
}

// TestShutdownForgets: a second Shutdown closes nothing again, even if Serve has not
// returned yet.
func TestShutdownForgets(t *testing.T) {
	s := &Server{Handler: echoHandler}
	ln := &countedListener{}
	var tracked net.Listener = ln
	s.beginServe(&tracked, s.config())
	for range 2 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, draining := s.serving.Counts(); ln.closes != 1 || s.serving.Engine != nil || draining != 0 {
			t.Errorf("the listener was closed %d times; engine %v, %d others", ln.closes, s.serving.Engine, draining)
		}
	}
	s.serving.End(&tracked) // Serve returns
	if n := ListenersOf(s); n != 0 {
		t.Errorf("%d listeners are left", n)
	}
}
