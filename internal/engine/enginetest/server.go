package enginetest

import (
	"context"
	"fmt"
	"net"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// A server is an engine that serves one listener of the fixture's network.
type server struct {
	*acceptor
	engine   engine.Engine
	handler  engine.Acceptor // the acceptor, as a Waker if it is one
	listener net.Listener
	dial     func() (net.Conn, error)
	dialWith dialer
	served   chan error // what Serve returned
}

// start makes an engine serve, and checks at the end of the test that it is
// left with nothing.
func (f *fixture) start(t *testing.T, a *acceptor, options engine.Options) *server {
	t.Helper()
	return f.startOn(t, a, options, func(ln net.Listener) net.Listener { return ln })
}

// startOn is start with the listener wrapped.
func (f *fixture) startOn(t *testing.T, a *acceptor, options engine.Options, wrap func(net.Listener) net.Listener) *server {
	t.Helper()
	ln, dial, err := f.network.listen(t)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{acceptor: a, engine: f.newEngine(options), listener: wrap(ln), dialWith: dial, served: make(chan error, 1)}
	s.dial = func() (net.Conn, error) { return dial(f.network.header) }
	if f.network.header != "" && a.rule == nil {
		a.rule = anyProxy()
	}
	s.handler = a.handler(f.network.sleeps)
	a.engine = s.engine
	go func() { s.served <- s.engine.Serve(s.listener, s.handler) }()
	t.Cleanup(func() {
		a.releaseAll()
		s.shutdown(t)
		_ = s.listener.Close()
		s.check(t)
	})
	return s
}

// check looks at the books when the engine is shut down.
func (s *server) check(t *testing.T) {
	t.Helper()
	stats := s.engine.Stats()
	stats.HandshakesDropped = 0
	if stats != (engine.Stats{}) {
		t.Errorf("Stats after Shutdown: %+v", stats)
	}
	if !within(patience, s.isSettled) {
		t.Errorf("something is left after Shutdown%s", s.state())
	}
	for _, violation := range s.violations() {
		t.Error(violation)
	}
}

// isSettled reports whether nothing is left of an engine that was shut down. Its
// workers may be on their way out when Shutdown returns.
func (s *server) isSettled() bool {
	return s.isBalanced() && sum(s.engine.Loops()) == engine.LoopStats{}
}

// sum adds up what the parts of an engine have.
func sum(loops []engine.LoopStats) (all engine.LoopStats) {
	for _, l := range loops {
		all.Connections += l.Connections
		all.Active += l.Active
		all.Queued += l.Queued
		all.Workers += l.Workers
		all.IdleWorkers += l.IdleWorkers
		all.Buffers += l.Buffers
	}
	return all
}

// shutdown shuts the engine down with plenty of time.
func (s *server) shutdown(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.engine.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v%s", err, s.state())
	}
}

// beginShutdown starts a Shutdown that has to wait, and returns when it has got
// as far as to refuse new work.
func (s *server) beginShutdown(t *testing.T) (done chan struct{}) {
	t.Helper()
	done = make(chan struct{})
	go func() {
		defer close(done)
		s.shutdown(t)
	}()
	s.eventually(t, "it is closing", func() bool { return s.engine.Life().Has(engine.StageClosing) })
	return done
}

// stats returns the engine's without the numbers of compact connections, which only some
// fixtures have.
func (s *server) stats() engine.Stats {
	stats := s.engine.Stats()
	stats.Compact, stats.Cold = 0, 0
	return stats
}

// eventually polls until claim is true.
func (s *server) eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	if !within(patience, claim) {
		t.Fatalf("never came true: %s%s", what, s.state())
	}
}

// eventuallyIdle waits until the engine has count connections and nothing to do.
func (s *server) eventuallyIdle(t *testing.T, count int) {
	t.Helper()
	s.eventually(t, fmt.Sprint(count, " idle connections"), func() bool {
		return s.stats() == engine.Stats{Open: count}
	})
}

// awaitGate waits until a Run is at the gate of that name.
func (s *server) awaitGate(t *testing.T, key string) {
	t.Helper()
	select {
	case <-s.gate(key).entered:
	case <-time.After(patience):
		t.Fatalf("no Run came to %q%s", key, s.state())
	}
}

// serveError waits for what Serve returns.
func (s *server) serveError(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.served:
		return err
	case <-time.After(patience):
		t.Fatalf("Serve did not return%s", s.state())
		return nil
	}
}

// within polls for a limited time.
func within(limit time.Duration, claim func() bool) bool { return nettest.Poll(limit, claim) }

// pause is one step of polling.
func pause() { time.Sleep(200 * time.Microsecond) }

// state is what a failed test wants to know about the engine: its gauges, the
// acceptor's books, and where all goroutines are.
func (s *server) state() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s: Stats %+v", s.engine.Name(), s.engine.Stats())
	for i, l := range s.engine.Loops() {
		fmt.Fprintf(&out, "\nloop %d: %+v", i, l)
	}
	fmt.Fprintf(&out, "\nbooks: %s\n", s.books())
	for _, violation := range s.violations() {
		fmt.Fprintf(&out, "violation: %s\n", violation)
	}
	_ = pprof.Lookup("goroutine").WriteTo(&out, 1)
	if report := out.String(); len(report) > stateLimit {
		return report[:stateLimit] + "..."
	}
	return out.String()
}

// stateLimit bounds state's result, bytes.
const stateLimit = 24 << 10
