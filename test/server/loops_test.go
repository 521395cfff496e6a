package server_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestLoops: the event engine has as many loops as it is told to, and all serve.
func TestLoops(t *testing.T) {
	n := harness.OnEpoll(t)
	for loops, want := range map[int]int{1: 1, 3: 3, 0: (runtime.GOMAXPROCS(0) + 1) / 2, -1: (runtime.GOMAXPROCS(0) + 1) / 2} {
		r := harness.Serve(t, n, &sluice.Server{Loops: loops, Handler: answering("x")})
		for range 4 * max(loops, 1) {
			if a := r.Dial().Get("/"); a.Body != "x" {
				t.Errorf("%d loops: answered %q", loops, a.Body)
			}
		}
		stats := r.Server.EngineStats()
		if len(stats.Loops) != want {
			t.Errorf("Loops %d: there are %d, want %d", loops, len(stats.Loops), want)
		}
		if idle := func(l sluice.LoopStats) bool { return l.Connections == 0 }; loops > 0 && slices.ContainsFunc(stats.Loops, idle) {
			t.Errorf("Loops %d: one has no connections", loops)
		}
		r.Stop()
	}
}

// TestMaxWorkers: no more handlers run than are allowed, and whoever has waited
// is answered.
func TestMaxWorkers(t *testing.T) { testMaxWorkers(t, harness.OnEpoll(t)) }

// TestMaxWorkersTLS: goroutines that have made handshakes do not run handlers
// beyond the bound.
func TestMaxWorkersTLS(t *testing.T) {
	for _, n := range harness.OverTLSEach(t, append(harness.WithCompactTLS(), harness.OnEpoll(t))) {
		t.Run(n.Name, func(t *testing.T) { testMaxWorkers(t, n) })
	}
}

func testMaxWorkers(t *testing.T, n harness.Network) {
	const limit, requests = 2, 12
	var running, most atomic.Int64
	leave := make(chan struct{})
	r := harness.Serve(t, n, &sluice.Server{Loops: 1, MaxWorkers: limit, Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/hello" {
			return
		}
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-leave
		running.Add(-1)
		ctx.SetBodyString("x")
	}})
	var peers []*harness.Peer
	for range requests {
		peers = append(peers, r.Dial())
	}
	var greetings sync.WaitGroup
	for _, p := range peers { // at once: so many handshakes
		greetings.Go(func() { p.Get("/hello") })
	}
	greetings.Wait()
	for _, p := range peers {
		p.Send(harness.Get("/"))
	}
	// Goroutines that have made handshakes may end a little later.
	harness.Eventually(t, "two run and the others wait", func() bool {
		stats := r.Server.EngineStats().Loops[0]
		return running.Load() == limit && stats.Queued == requests-limit && stats.Workers == limit
	})
	close(leave)
	for i, p := range peers {
		if a := p.Answer("GET"); a.Body != "x" {
			t.Errorf("%d is answered %q", i, a.Body)
		}
	}
	if most.Load() != limit {
		t.Errorf("%d handlers have run at the same time, want %d", most.Load(), limit)
	}
}

// TestMaxWorkersPerConn: a goroutine for each connection has no such bound.
func TestMaxWorkersPerConn(t *testing.T) {
	var running atomic.Int64
	leave := make(chan struct{})
	r := harness.Serve(t, harness.OverTCP().By(sluice.EnginePerConn), &sluice.Server{Loops: 1, MaxWorkers: 1, Handler: func(*sluice.RequestCtx) {
		running.Add(1)
		<-leave
	}})
	first, second := r.Dial(), r.Dial()
	first.Send(harness.Get("/"))
	second.Send(harness.Get("/"))
	harness.Eventually(t, "both run", func() bool { return running.Load() == 2 })
	close(leave)
	first.Answer("GET")
	second.Answer("GET")
}
