// Package enginetest is the suite that every engine passes. It speaks a small
// protocol of its own (session.go) over every kind of connection, so that it
// tests engines and nothing else.
package enginetest

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// patience is how long a test waits for what must happen. Only failing tests
// ever wait for so long.
const patience = 20 * time.Second

// A scenario is one test of the suite, run on every network it suits.
type scenario struct {
	name string
	run  func(*testing.T, *fixture)
	need needs
}

// needs says which networks a scenario runs on.
type needs uint8

const (
	halfClose  needs = 1 << iota // the client can close its sending side
	deadlines                    // the server's end honours deadlines
	buffered                     // writes do not wait for the reader
	handshakes                   // there is a handshake
)

// A fixture is what a scenario works with.
type fixture struct {
	newEngine func(engine.Options) engine.Engine
	network   Network
}

// Run runs the suite on engines made by newEngine. Without networks it runs on
// TCP, unix sockets, TLS, net.Pipe, and net.Pipe without deadlines.
func Run(t *testing.T, newEngine func(engine.Options) engine.Engine, networks ...Network) {
	if len(networks) == 0 {
		networks = []Network{TCP(), Unix(), TLS(), Pipe(), DeafPipe()}
	}
	openPoller(t)
	var fixtures []*fixture
	for _, network := range networks {
		f := &fixture{newEngine, network}
		fixtures = append(fixtures, f)
		t.Run(network.Name, func(t *testing.T) {
			for _, s := range scenarios() {
				if s.need&^network.offers != 0 {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					checkLeaks(t)
					s.run(t, f)
				})
			}
		})
	}
	// What takes seconds is done on all networks at once.
	t.Run("long wait", func(t *testing.T) {
		checkLeaks(t)
		testLongWait(t, fixtures)
	})
	t.Run("deadline that moves", func(t *testing.T) {
		checkLeaks(t)
		testDeadlineMoves(t, fixtures)
	})
}

func scenarios() []scenario {
	var all []scenario
	all = append(all, streamScenarios()...)
	all = append(all, closeScenarios()...)
	all = append(all, runScenarios()...)
	all = append(all, deadlineScenarios()...)
	all = append(all, acceptScenarios()...)
	all = append(all, shutdownScenarios()...)
	return append(all, handoverScenarios()...)
}

// checkLeaks compares goroutines and descriptors before and after a test.
func checkLeaks(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		end := time.Now().Add(patience)
		for runtime.NumGoroutine() > goroutines || openFiles() > files {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				stacks = stacks[:runtime.Stack(stacks, true)]
				t.Errorf("goroutines %d, were %d; descriptors %d, were %d\n%s",
					runtime.NumGoroutine(), goroutines, openFiles(), files, stacks)
				return
			}
			pause()
		}
	})
}

// openPoller has Go's poller open its descriptors, which stay.
func openPoller(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
}

// openFiles counts the process's descriptors where the system tells.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// pause is one step of polling.
func pause() { time.Sleep(200 * time.Microsecond) }

// eventually polls until claim is true.
func eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !claim(); pause() {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// A server is an engine that serves one listener of the fixture's network.
type server struct {
	*acceptor
	engine   engine.Engine
	listener net.Listener
	dial     func() (net.Conn, error)
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
	s := &server{acceptor: a, engine: f.newEngine(options), listener: wrap(ln), dial: dial, served: make(chan error, 1)}
	a.engine = s.engine
	go func() { s.served <- s.engine.Serve(s.listener, a) }()
	t.Cleanup(func() {
		a.releaseAll()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.engine.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v; %+v", err, s.engine.Stats())
		}
		_ = s.listener.Close()
		s.check(t)
	})
	return s
}

// check looks at the books when the engine is shut down.
func (s *server) check(t *testing.T) {
	t.Helper()
	if stats := s.engine.Stats(); stats.Open != 0 || stats.Active != 0 {
		t.Errorf("Stats after Shutdown: %+v", stats)
	}
	end := time.Now().Add(patience)
	for s.admitted.Load() != s.released.Load() || s.opened.Load() != s.closed.Load() {
		if time.Now().After(end) {
			t.Errorf("admitted %d, released %d; opened %d, closed %d",
				s.admitted.Load(), s.released.Load(), s.opened.Load(), s.closed.Load())
			break
		}
		pause()
	}
	for _, violation := range s.violations() {
		t.Error(violation)
	}
}

// shutdown shuts the engine down with plenty of time.
func (s *server) shutdown(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.engine.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v; %+v", err, s.engine.Stats())
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
	eventually(t, "CloseRequested", s.engine.CloseRequested)
	return done
}
