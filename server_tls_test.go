package sluice

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// TestALPNConn: nothing is done with the bytes of a connection that a ServeHandler gets.
func TestALPNConn(t *testing.T) {
	var states []ConnState
	s := quietServer(func(*RequestCtx) {})
	s.ConnState = func(_ net.Conn, state ConnState) { states = append(states, state) }
	logger := &recordingLogger{}
	s.Logger = logger
	one := acquireSingle(s)
	c := &http1test.Conn{}
	failure := errors.New("of the handler")
	a := &alpnConn{conn: c, cfg: &one.config, handler: func(net.Conn) error { return failure }}
	in, out := []byte("in"), []byte("out")
	if a.Capabilities() != engine.CanStart || a.Start() != engine.Detach || a.Pause() || string(a.HalfClosed(out)) != "out" {
		t.Error("it does not start with Detach")
	}
	if used, next := a.Feed(in); used != 0 || next != engine.Detach {
		t.Errorf("Feed: %d, %v", used, next)
	}
	if got, next := a.Run(out); string(got) != "out" || next != engine.Detach {
		t.Errorf("Run: %q, %v", got, next)
	}
	if got, next := a.TimedOut(out); string(got) != "out" || next != engine.Abort {
		t.Errorf("TimedOut: %q, %v", got, next)
	}
	a.Detached(http1test.NetConn{Conn: c})
	a.Closed(nil)
	if one.failure != failure || logger.count() != 1 || !strings.Contains(logger.lines[0], "of the handler") || !slices.Equal(states, []ConnState{StateClosed}) {
		t.Errorf("failure %v, log %q, states %v", one.failure, logger.lines, states)
	}
	a.Closed(errors.New("of the connection"))
	if logger.count() != 2 || !strings.Contains(logger.lines[1], "of the connection") {
		t.Errorf("log %q", logger.lines)
	}
}

// A connection of another protocol that ends with an error before its handler runs is
// logged, and one that just ends is not.
func TestALPNConnEnds(t *testing.T) {
	log := &recordingLogger{}
	s := quietServer(func(*RequestCtx) {})
	s.Logger = log
	a := &alpnConn{conn: &http1test.Conn{}, cfg: s.config()}
	if a.Closed(nil); log.count() != 0 {
		t.Errorf("logged %q", log.lines)
	}
	if a.Closed(errors.New("boom")); log.count() != 1 {
		t.Errorf("logged %q", log.lines)
	}
}
