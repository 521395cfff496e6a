package sluice

import (
	"errors"
	"testing"
)

// A connection of another protocol that ends with an error before its handler runs is
// logged, and one that just ends is not.
func TestALPNConnEnds(t *testing.T) {
	log := &recordingLogger{}
	s := quietServer(echoHandler)
	s.Logger = log
	a := &alpnConn{conn: &scriptedConn{}, cfg: s.config()}
	if a.Closed(nil); log.count() != 0 {
		t.Errorf("logged %q", log.lines)
	}
	if a.Closed(errors.New("boom")); log.count() != 1 {
		t.Errorf("logged %q", log.lines)
	}
}
