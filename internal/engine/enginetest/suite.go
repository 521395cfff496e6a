// Package enginetest is the suite that every engine passes. It speaks a small
// protocol of its own (session.go) over every kind of connection, so that it
// tests engines and nothing else. Run is the suite, RunProcs the suite with
// several numbers of processors, and Soak compares engines on random clients.
package enginetest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
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
type needs uint16

const (
	halfClose  needs = 1 << iota // the client can close its sending side
	deadlines                    // the server's end honours deadlines
	buffered                     // writes do not wait for the reader
	handshakes                   // there is a handshake
	bare                         // connections are nothing but sockets
	moves                        // another engine can go on with connections
	headers                      // the client can send something before everything else
	// contended is no need: the scenario has much happen at once, so that
	// RunProcs runs it with several numbers of processors.
	contended
	// waits is no need: the scenario waits most of its time, so that Run runs it
	// on all networks at once.
	waits
)

// A fixture is what a scenario works with.
type fixture struct {
	newEngine func(engine.Options) engine.Engine
	network   Network
}

// offers reports whether the network has all of what.
func (f *fixture) offers(what needs) bool {
	return what&^(contended|waits)&^f.network.offers == 0
}

// fewNetworks returns those kinds of connections between which an engine differs most.
func fewNetworks() []Network {
	return []Network{Sleeping(TCP()), Sleeping(TLSListener()), DeafPipe()}
}

// networks returns every kind of connection there is; few if the tests are to be short.
// The sessions on those whose name ends in "sleeping" are engine.Sleepers.
func networks() []Network {
	if testing.Short() {
		return fewNetworks()
	}
	return []Network{
		TCP(), Sleeping(TCP()), Unix(), TLS(), TLSListener(), Sleeping(TLSListener()),
		Wrapped(), Pipe(), DeafPipe(), Proxied(Sleeping(TCP())),
	}
}

// Run runs the suite on engines made by newEngine. Without networks it runs on
// all of them.
func Run(t *testing.T, newEngine func(engine.Options) engine.Engine, networks ...Network) {
	openPoller(t)
	fixtures := fixturesFor(newEngine, networks)
	for _, f := range fixtures {
		t.Run(f.network.Name, func(t *testing.T) {
			f.runAll(t, slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.need&waits != 0 }))
		})
	}
	for _, s := range scenarios() {
		if s.need&waits != 0 {
			t.Run(s.name, func(t *testing.T) { s.runAtOnce(t, fixtures) })
		}
	}
	t.Run("long", func(t *testing.T) { runLong(t, fixtures) })
}

// runLong runs what takes seconds: all of it, on all networks, at the same time.
func runLong(t *testing.T, fixtures []*fixture) {
	checkLeaks(t)
	var all sync.WaitGroup
	for _, s := range longScenarios() {
		all.Go(func() { t.Run(s.name, func(t *testing.T) { s.run(t, fixtures) }) })
	}
	all.Wait()
}

// RunProcs is Run, and then, unless the tests are to be short, the scenarios in
// which much happens at once with 1, 2 and 4 processors, as far as that is not
// what Run had; of all networks, only on few.
func RunProcs(t *testing.T, newEngine func(engine.Options) engine.Engine, networks ...Network) {
	Run(t, newEngine, networks...)
	if testing.Short() {
		return
	}
	if len(networks) == 0 {
		networks = fewNetworks()
	}
	own := runtime.GOMAXPROCS(0)
	for _, procs := range []int{1, 2, 4} {
		if procs == own {
			continue
		}
		t.Run(fmt.Sprint("procs ", procs), func(t *testing.T) {
			runtime.GOMAXPROCS(procs)
			defer runtime.GOMAXPROCS(own)
			for _, f := range fixturesFor(newEngine, networks) {
				t.Run(f.network.Name, func(t *testing.T) {
					f.runAll(t, slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.need&contended == 0 }))
				})
			}
		})
	}
}

func fixturesFor(newEngine func(engine.Options) engine.Engine, some []Network) []*fixture {
	if len(some) == 0 {
		some = networks()
	}
	var fixtures []*fixture
	for _, network := range some {
		fixtures = append(fixtures, &fixture{newEngine, network})
	}
	return fixtures
}

// runAll runs those scenarios that suit the network.
func (f *fixture) runAll(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		if !f.offers(s.need) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			checkLeaks(t)
			s.run(t, f)
		})
	}
}

// runAtOnce runs the scenario on all networks that suit it, at the same time.
func (s scenario) runAtOnce(t *testing.T, fixtures []*fixture) {
	checkLeaks(t)
	var all sync.WaitGroup
	for _, f := range fixtures {
		if f.offers(s.need) {
			all.Go(func() { t.Run(f.network.Name, func(t *testing.T) { s.run(t, f) }) })
		}
	}
	all.Wait()
}

func scenarios() []scenario {
	return slices.Concat(
		streamScenarios(),
		closeScenarios(),
		runScenarios(),
		deadlineScenarios(),
		acceptScenarios(),
		shutdownScenarios(),
		goodbyeScenarios(),
		handoverScenarios(),
		adoptScenarios(),
		promptScenarios(),
		promptEndScenarios(),
		sleepScenarios(),
		taskScenarios(),
		duplexScenarios(),
		valveScenarios(),
		receiverScenarios(),
		parcelScenarios(),
		castScenarios(),
		switchScenarios(),
		identityScenarios(),
		pressureScenarios(),
		fileScenarios(),
		crowdScenarios(),
		tlsScenarios(),
		proxiedScenarios(),
	)
}

// checkLeaks compares goroutines and descriptors before and after a test.
func checkLeaks(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if !within(patience, func() bool { return runtime.NumGoroutine() <= goroutines && openFiles() <= files }) {
			stacks := make([]byte, 1<<16)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Errorf("goroutines %d, were %d; descriptors %d, were %d\n%s",
				runtime.NumGoroutine(), goroutines, openFiles(), files, stacks)
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
