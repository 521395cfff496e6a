//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

const (
	// startDelay is how much later clients begin than they are told to, so that
	// they begin together.
	startDelay = 300 * time.Millisecond
	// discardRate bounds what is sent to servers that do not answer, when no
	// rate was asked for.
	discardRate = 50_000
	// afterLimit is how long clients may go on when time is up.
	afterLimit = 10 * time.Minute
)

// counts are sums over processes at a time.
type counts struct {
	served, written      uint64
	serverCPU, clientCPU time.Duration
	machineCPU           time.Duration
}

// load has clients send, and measures.
func (s *session) load(ctx context.Context) error {
	orders := s.orders()
	before, err := s.counts(ctx)
	if err != nil {
		return err
	}
	start := time.Now().Add(startDelay)
	for _, m := range s.fleet.of(control.Client) {
		order := orders[m.Index]
		order.Start = start
		if err := m.link.Send(control.Message{Run: &order}); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	if err := s.waitDone(ctx, start); err != nil {
		return err
	}
	after, err := s.counts(ctx)
	if err != nil {
		return err
	}
	s.waitPacked()
	s.result.Memory.Worked, err = s.memory(ctx, control.Sample{})
	if err != nil {
		return err
	}
	return s.evaluate(orders[0].Mode, before, after)
}

// orders returns what each client is to do.
func (s *session) orders() []control.Run {
	clients := s.plan.Clients
	inFlight, rate, mode := s.plan.InFlight, s.Rate, control.Sweep
	if s.InFlight > 0 {
		inFlight = min(s.InFlight, s.Scenario.Conns)
	}
	atOnce := len(clients)
	active := s.Scenario.Conns
	if s.Active > 0 {
		mode, active = control.Loop, min(s.Active, active)
	}
	if s.Scenario.Workload.Kind == scenario.Discard && rate == 0 {
		rate = float64(min(s.Scenario.Conns, discardRate))
	}
	if rate > 0 {
		mode = control.Rate
	}
	load := &s.result.Load
	load.Mode, load.Active, load.Rate = mode, active, rate
	if mode == control.Sweep {
		load.InFlight = inFlight
		atOnce = s.plan.AtOnce
		load.AtOnce = atOnce
	}
	if atOnce < len(clients) {
		s.turns = newTurns(len(clients), atOnce)
	}
	orders := make([]control.Run, len(clients))
	for i := range orders {
		part := plan.Share(active, len(clients), i)
		orders[i] = control.Run{
			Mode: mode, Duration: s.Duration, Active: part,
			InFlight: max(plan.Share(inFlight, atOnce, i%atOnce), 1), Turns: s.turns != nil,
			PerSec: rate * float64(part) / float64(active),
		}
	}
	return orders
}

// counts asks all processes what they have counted.
func (s *session) counts(ctx context.Context) (counts, error) {
	if err := s.fleet.sample(ctx); err != nil {
		return counts{}, err
	}
	return s.sums(), nil
}

// sums returns what processes have said last.
func (s *session) sums() (c counts) {
	s.fleet.each(control.Server, func(m *member) {
		c.served += m.stats.Requests
		c.written += m.stats.Written
		c.serverCPU += m.stats.CPU
	})
	s.fleet.each(control.Client, func(m *member) { c.clientCPU += m.stats.CPU })
	c.machineCPU = s.System.CPU()
	return c
}

// waitDone waits for the clients and shows how far they are.
func (s *session) waitDone(ctx context.Context, start time.Time) error {
	s.Progress.Phase("load", int(s.Duration/time.Second))
	var requests uint64
	done := 0
	last, lastTime := uint64(0), start
	look := func() {
		now := time.Now()
		elapsed := now.Sub(start)
		if now.Sub(lastTime) < time.Second {
			return
		}
		rate := float64(requests-last) / now.Sub(lastTime).Seconds()
		last, lastTime = requests, now
		s.Progress.Set(int(min(elapsed, s.Duration)/time.Second), fmt.Sprintf("%.0f requests/s, %d in all", rate, requests))
	}
	err := s.fleet.wait(ctx, s.Duration+afterLimit, func() bool {
		done, requests = 0, 0
		clients := s.fleet.ofLocked(control.Client)
		if s.turns != nil {
			s.passTurns(clients, time.Since(start))
		}
		for _, m := range clients {
			requests += m.stats.Requests
			if m.done != nil {
				done++
			}
		}
		return done == len(s.plan.Clients)
	}, look)
	if errors.Is(err, errTimeout) {
		return fmt.Errorf("%d of %d clients are done: %w", done, len(s.plan.Clients), err)
	}
	return err
}

// passTurns gives clients their turns; the fleet's mutex is held. A link that
// fails is a process that ends, which ends the run.
func (s *session) passTurns(clients []*member, elapsed time.Duration) {
	for _, m := range clients {
		s.turns.took(m.Index, m.turned)
	}
	next := s.turns.next(elapsed >= s.Duration)
	for _, m := range clients {
		if slices.Contains(next, m.Index) {
			_ = m.link.Send(control.Message{Turn: &control.Turn{}})
		}
	}
	if !s.turns.end() {
		return
	}
	for _, m := range clients {
		_ = m.link.Send(control.Message{Turn: &control.Turn{IsLast: true}})
	}
}

// evaluate sums up what clients have measured.
func (s *session) evaluate(mode control.Mode, before, after counts) error {
	load := &s.result.Load
	var histograms [][]byte
	isFirst := true
	s.fleet.each(control.Client, func(m *member) {
		load.Completed += m.done.Completed
		load.Elapsed = max(load.Elapsed, m.done.Elapsed)
		load.Unanswered += m.done.Unanswered
		load.Backlog += m.done.Backlog
		if isFirst || m.done.Sweeps < load.Sweeps {
			load.Sweeps = m.done.Sweeps
		}
		isFirst = false
		histograms = append(histograms, m.done.Latencies)
	})
	s.countLost()
	load.Served = after.served - before.served
	load.ServerCPU = after.serverCPU - before.serverCPU
	load.ClientCPU = after.clientCPU - before.clientCPU
	load.MachineCPU = after.machineCPU - before.machineCPU
	if load.Elapsed > 0 {
		load.PerSec = float64(load.Completed) / load.Elapsed.Seconds()
		if !s.result.Answers() {
			load.PerSec = float64(load.Served) / load.Elapsed.Seconds()
		}
	}
	var err error
	load.Latency, err = result.MergeLatencies(histograms)
	return err
}

// countLost sums up what connections have ended, and why.
func (s *session) countLost() {
	load := &s.result.Load
	load.Lost = 0
	s.fleet.each(control.Client, func(m *member) {
		load.Lost += m.stats.Lost
		if load.FirstError == "" {
			load.FirstError = m.stats.FirstError
		}
	})
}
