package enginetest

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// A NamedEngine is one of the engines that Soak compares.
type NamedEngine struct {
	Name string
	New  func(engine.Options) engine.Engine
}

const (
	soakClients   = 48 // at once
	soakResidents = 4  // connections of each server that stay all the time
)

// soakRounds is how many rounds fill about 5 seconds, or 2 in a short test, on
// a machine with two processors.
func soakRounds() int {
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	if invariants.Enabled {
		rounds = (rounds + 1) / 2
	}
	return rounds
}

// Soak has many random clients at once use each engine, on several networks:
// clients that pipeline, dribble, read slowly, leave in every way there is and
// reset connections, while sessions are prompted and detached. Each client that
// is well-behaved must get the same bytes from all engines, and they must be
// right. In the end nothing may be left.
//
// The same seed makes the same clients. The number of rounds is fixed, unless
// SLUICE_SOAK says for how long to go on ("10m"). A failure says which
// SLUICE_SOAK_SEED repeats it.
func Soak(t *testing.T, seed uint64, engines ...NamedEngine) {
	openPoller(t)
	checkLeaks(t)
	seed, duration := soakSettings(t, seed)
	began := time.Now()
	var soaked []*soaker
	for _, e := range engines {
		soaked = append(soaked, startSoaker(t, e))
	}
	round := 0
	for ; duration > 0 && time.Since(began) < duration || duration == 0 && round < soakRounds(); round++ {
		soakRound(t, seed+uint64(round), soaked)
		if t.Failed() {
			t.Errorf("repeat with SLUICE_SOAK_SEED=%d", seed+uint64(round))
			return
		}
	}
	for _, k := range soaked {
		k.finish(t)
	}
	t.Logf("%d rounds of %d clients, seed %d", round, soakClients, seed)
}

// soakSettings reads the environment.
func soakSettings(t *testing.T, seed uint64) (uint64, time.Duration) {
	t.Helper()
	var duration time.Duration
	var err error
	if text := os.Getenv("SLUICE_SOAK"); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("SLUICE_SOAK_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return seed, duration
}

// soakNetworks are those on which a client can do everything that scripts do.
func soakNetworks() []Network {
	return []Network{TCP(), Sleeping(TCP()), Unix(), TLS(), TLSListener(), Sleeping(TLSListener()), Wrapped()}
}

// A soaker is one engine of a Soak: it serves all networks at once.
type soaker struct {
	name      string
	engine    engine.Engine
	servers   []*server
	residents []*peer
}

func startSoaker(t *testing.T, e NamedEngine) *soaker {
	t.Helper()
	k := &soaker{name: e.Name, engine: e.New(options())}
	source := openSource(t, soakText)
	for _, network := range soakNetworks() {
		ln, dial, err := network.listen(t)
		if err != nil {
			t.Fatal(err)
		}
		a := newAcceptor()
		a.engine, a.detached, a.idle = k.engine, echoUntilEnd, time.Hour
		a.source = source
		s := &server{acceptor: a, engine: k.engine, handler: a.handler(network.sleeps), listener: ln, served: make(chan error, 1)}
		s.dial = func() (net.Conn, error) { return dial("") }
		go func() { s.served <- s.engine.Serve(s.listener, s.handler) }()
		k.servers = append(k.servers, s)
	}
	t.Cleanup(func() {
		k.servers[0].shutdown(t)
		for _, s := range k.servers {
			_ = s.listener.Close()
			s.check(t)
		}
	})
	for i, s := range k.servers {
		for j := range soakResidents {
			p := s.connect(t)
			name := fmt.Sprint("resident ", i, " ", j)
			p.ask(t, "token "+name, "known")
			p.note(t, name)
			k.residents = append(k.residents, p)
		}
	}
	return k
}

// soakRound has the clients of one seed use each engine, and compares.
func soakRound(t *testing.T, seed uint64, soaked []*soaker) {
	t.Helper()
	text := patternText(soakText)
	var scripts []*script
	for client := range soakClients {
		scripts = append(scripts, newScript(seed, client, len(soakNetworks()), text))
	}
	var results [][]uint64
	for _, k := range soaked {
		results = append(results, k.play(t, scripts))
		k.askResidents(t)
	}
	for i, sc := range scripts {
		for j := range results {
			if sc.isSettled() && results[j][i] != results[0][i] {
				t.Errorf("%s and %s differ: %s", soaked[0].name, soaked[j].name, sc)
			}
		}
	}
}

// play has all scripts played at once, and returns digests of what was received.
func (k *soaker) play(t *testing.T, scripts []*script) []uint64 {
	results := make([]uint64, len(scripts))
	var all sync.WaitGroup
	var report sync.Once
	for i, sc := range scripts {
		all.Go(func() {
			s := k.servers[sc.server]
			digest, err := sc.play(s)
			results[i] = digest
			if err == nil {
				return
			}
			t.Errorf("%s: %v\n%s", k.name, err, sc)
			report.Do(func() { t.Log(s.state()) })
		})
	}
	all.Wait()
	for i, s := range k.servers {
		for _, violation := range s.violations() {
			t.Errorf("%s, %s: %s", k.name, soakNetworks()[i].Name, violation)
		}
	}
	return results
}

// askResidents looks whether those who were not concerned are well.
func (k *soaker) askResidents(t *testing.T) {
	t.Helper()
	for n, p := range k.residents {
		_ = p.SetDeadline(time.Now().Add(patience))
		name := fmt.Sprint("resident ", n/soakResidents, " ", n%soakResidents)
		if n%2 == 0 {
			p.expect(t, p.server.note(name).say())
		}
		p.ask(t, "who", name)
	}
}

// finish expects the engine to be left with nothing when all clients are gone,
// although it has not been shut down.
func (k *soaker) finish(t *testing.T) {
	t.Helper()
	for _, p := range k.residents {
		_ = p.Close()
	}
	k.servers[0].eventually(t, "nothing is left but workers", func() bool {
		all := sum(k.engine.Loops())
		all.Workers, all.IdleWorkers = 0, 0
		return k.engine.Stats() == engine.Stats{} && all == engine.LoopStats{}
	})
	for _, s := range k.servers {
		s.eventually(t, "balanced books", s.isBalanced)
	}
}
