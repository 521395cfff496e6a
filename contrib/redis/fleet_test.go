package sluiceredis

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/shared"
)

const (
	fleetLimit   = 60 // of the fleet
	fleetLocal   = 7  // of a machine while Redis is away
	fleetClients = 4  // of each machine
	fleetPause   = 50 * time.Millisecond
)

// A fleetMachine is a server with a Store of its own.
type fleetMachine struct {
	url   string
	store *Store
	errs  *atomic.Int64 // how often Redis was asked in vain
}

// fleet starts three servers with one limit for each path.
func fleet(t *testing.T, s *server, away func() func(key []byte) shared.Quota) (machines []*fleetMachine) {
	for range 3 {
		m := &fleetMachine{}
		m.store, m.errs = s.store(Options{Timeout: patient.Timeout, Pause: fleetPause})
		limit := middleware.RateLimit(m.store.limiter(t, RateLimit{Events: fleetLimit, Per: time.Hour, Away: away()}), middleware.RateLimitOptions{
			Key: func(ctx *sluice.RequestCtx) []byte { return ctx.Path() },
		})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m.url = "http://" + ln.Addr().String()
		server := &sluice.Server{Handler: limit(func(ctx *sluice.RequestCtx) { ctx.SetBodyString("served") })}
		served := make(chan error, 1)
		go func() { served <- server.Serve(ln) }()
		t.Cleanup(func() {
			if err := server.Shutdown(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		machines = append(machines, m)
	}
	return machines
}

// A fleetCount is what clients got.
type fleetCount struct{ served, refused, failed atomic.Int64 }

// request makes a request that is sent once.
func (n *fleetCount) request(client *sluice.Client, url string) {
	status, _, err := client.Get(nil, url)
	switch {
	case err == nil && status == sluice.StatusOK:
		n.served.Add(1)
	case err == nil && status == sluice.StatusTooManyRequests:
		n.refused.Add(1)
	default:
		n.failed.Add(1)
	}
}

// load sends requests for path to all machines concurrently, count from each client, and returns
// what the clients got from each machine.
func load(machines []*fleetMachine, path string, count int) (got []*fleetCount) {
	var all sync.WaitGroup
	for _, m := range machines {
		n := &fleetCount{}
		got = append(got, n)
		for range fleetClients {
			all.Go(func() {
				client := &sluice.Client{MaxIdemponentCallAttempts: 1}
				defer client.CloseIdleConnections()
				for range count {
					n.request(client, m.url+path)
				}
			})
		}
	}
	all.Wait()
	return got
}

// Three servers share a limit. Redis is killed under load, and started again: meanwhile each
// server decides as the program says, and no request waits for Redis but a few, whose number
// is bounded. Then the limit is that of the fleet again.
func TestFleet(t *testing.T) {
	const count = 50 // requests of each client while Redis is away
	for name, c := range map[string]struct {
		away   func() func(key []byte) shared.Quota // of a machine
		served int64                                // by each machine of a key, while Redis is away
	}{
		"closed": {func() func([]byte) shared.Quota { return nil }, 0},
		"open":   {func() func([]byte) shared.Quota { return Admit }, count * fleetClients},
		"local": {func() func([]byte) shared.Quota {
			segment := shared.Must(shared.New(shared.Options{Local: true}))
			return shared.Must(segment.RateLimiter("local", shared.RateLimit{Events: fleetLocal, Per: time.Hour})).Take
		}, fleetLocal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			machines := fleet(t, s, c.away)
			for round := range 2 {
				checkShared(t, machines, fmt.Sprint("/before/", round))
				s.whileAway(machines, func() {
					for i, n := range load(machines, fmt.Sprint("/away/", round), count) {
						if n.served.Load() != c.served || n.refused.Load() != count*fleetClients-c.served {
							t.Errorf("machine %d: %d served, want %d; %d refused, %d failed", i, n.served.Load(), c.served, n.refused.Load(), n.failed.Load())
						}
					}
				})
				checkShared(t, machines, fmt.Sprint("/after/", round))
			}
		})
	}
}

// whileAway kills Redis, calls f, and starts Redis again, while clients make requests.
func (s *server) whileAway(machines []*fleetMachine, f func()) {
	var others sync.WaitGroup
	end := make(chan struct{})
	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			for _, n := range load(machines, fmt.Sprint("/others/", i), 1) {
				if n.failed.Load() > 0 {
					s.t.Errorf("%d requests failed", n.failed.Load())
				}
			}
		}
	})
	var before []int64
	for _, m := range machines {
		before = append(before, m.errs.Load())
	}
	begin := time.Now()
	s.Kill()
	for i, m := range machines {
		for m.errs.Load() < before[i]+patience { // until it knows
			time.Sleep(time.Millisecond)
		}
	}
	f()
	s.Start()
	for i, m := range machines {
		for m.store.awayUntil.Load() != 0 { // until it asks, and gets an answer
			time.Sleep(time.Millisecond)
		}
		// Each client may be asking when Redis dies; then one request does after each pause.
		if asked, most := m.errs.Load()-before[i], patience+2*fleetClients+int64(time.Since(begin)/fleetPause); asked > most {
			s.t.Errorf("machine %d asked Redis in vain for %d requests, want at most %d", i, asked, most)
		}
	}
	close(end)
	others.Wait()
}

// checkShared: while Redis serves, the machines together admit what the limit says.
func checkShared(t *testing.T, machines []*fleetMachine, path string) {
	t.Helper()
	var served, failed int64
	for _, n := range load(machines, path, 20) {
		served, failed = served+n.served.Load(), failed+n.failed.Load()
	}
	if served != fleetLimit || failed > 0 {
		t.Errorf("%s: %d served, %d failed, want %d served", path, served, failed, fleetLimit)
	}
}
