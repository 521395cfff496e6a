//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

const (
	// settleTime is how long all is left alone after the last connection, before its
	// memory is looked at.
	settleTime = 500 * time.Millisecond
	// packTime is how long connections of HTTP/2 and compact TLS are, as servers pack those
	// that were idle for two seconds.
	packTime = 3 * time.Second
	// idleTime is how long many processes do nothing before their memory is looked at: it
	// matters that each has workers for a while, with a stack and buffers.
	idleTime = 22 * time.Second // twice Server.MaxIdleWorkerDuration, and a little
)

// cachesShown is how many of the kernel's caches a report names.
const cachesShown = 8

// connect has all connections made.
func (s *session) connect(ctx context.Context) error {
	before, err := s.memory(ctx, control.Sample{})
	if err != nil {
		return err
	}
	kernel, idle := s.System.Kernel(true), s.sums()
	s.result.Memory.Before = before
	s.Progress.Phase("connections", s.Scenario.Conns)
	began := time.Now()
	for _, m := range s.fleet.of(control.Client) {
		order := s.connectOrder(m.Index)
		if err := m.link.Send(control.Message{Connect: &order}); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	if err := s.waitConnected(ctx, began); err != nil {
		return err
	}
	spent := s.sums()
	s.result.Connect.ServerCPU, s.result.Connect.ClientCPU = spent.serverCPU-idle.serverCPU, spent.clientCPU-idle.clientCPU
	time.Sleep(settleTime)
	s.waitPacked()
	s.result.Memory.After, err = s.memory(ctx, control.Sample{})
	if err != nil {
		return err
	}
	s.result.Memory.Growing = append(s.result.Memory.Growing, s.result.Memory.After)
	s.result.Memory.Caches = system.Grown(kernel, s.System.Kernel(true), cachesShown)
	if served := s.served(); served != s.result.Connect.Made {
		return fmt.Errorf("clients have made %d connections, and servers have %d", s.result.Connect.Made, served)
	}
	return nil
}

// waitPacked waits until idle connections of HTTP/2 and compact TLS are packed.
func (s *session) waitPacked() {
	if s.Scenario.Protocol == scenario.HTTP2 || s.Scenario.CompactTLS {
		time.Sleep(packTime)
	}
}

// connectOrder returns what a client is told to connect to.
func (s *session) connectOrder(index int) control.Connect {
	c := s.plan.Clients[index]
	dialers := s.Dialers
	if dialers <= 0 {
		dialers = defaultDialers
	}
	return control.Connect{Targets: c.Targets, Dialers: min(dialers, c.Conns)}
}

// waitConnected waits until clients have made what connections they can.
func (s *session) waitConnected(ctx context.Context, began time.Time) error {
	var made, failed, settled int
	var firstError string
	sampledAt := 0
	step := max(s.Scenario.Conns/50, 1)
	look := func() {
		s.Progress.Set(made, fmt.Sprintf("%.0f/s", float64(made)/time.Since(began).Seconds()))
		if made >= sampledAt+step {
			sampledAt = made
			s.result.Memory.Growing = append(s.result.Memory.Growing, s.quickMemory())
		}
	}
	err := s.fleet.wait(ctx, connectLimit, func() bool {
		made, failed, settled = 0, 0, 0
		for _, m := range s.fleet.ofLocked(control.Client) {
			made += m.stats.Connections
			failed += m.stats.Failed
			if firstError == "" {
				firstError = m.stats.FirstError
			}
			if m.stats.Settled {
				settled++
			}
		}
		return settled == len(s.plan.Clients)
	}, look)
	s.result.Connect.Made, s.result.Connect.Failed = made, failed
	switch {
	case errors.Is(err, errTimeout):
		return fmt.Errorf("%d connections were made, %d failed (%s): %w", made, failed, firstError, err)
	case err != nil:
		return err
	case made == 0:
		return fmt.Errorf("no connection could be made: %s", firstError)
	}
	s.Progress.Set(made, "")
	if err := s.waitAccepted(ctx, made); err != nil {
		return err
	}
	s.result.Connect.Elapsed = time.Since(began)
	s.result.Connect.PerSec = float64(made) / s.result.Connect.Elapsed.Seconds()
	return nil
}

// waitAccepted waits until servers have the connections that clients have made.
func (s *session) waitAccepted(ctx context.Context, made int) error {
	for end := time.Now().Add(startLimit); time.Now().Before(end); {
		if err := s.fleet.sample(ctx); err != nil {
			return err
		}
		if s.served() >= made {
			return nil
		}
	}
	return fmt.Errorf("clients have made %d connections, and servers have accepted %d", made, s.served())
}

// served returns how many connections servers have, as of the last sample.
func (s *session) served() (n int) {
	s.fleet.each(control.Server, func(m *member) { n += m.stats.Connections })
	return n
}

// memory returns what all processes use.
func (s *session) memory(ctx context.Context, order control.Sample) (result.MemorySample, error) {
	if err := s.fleet.ask(ctx, order); err != nil {
		return result.MemorySample{}, err
	}
	sample := s.quickMemory()
	for _, m := range s.fleet.of(control.Server) {
		sample.Server.Proportional += s.System.Proportional(m.PID)
	}
	for _, m := range s.fleet.of(control.Master) {
		sample.Server.Proportional += s.System.Proportional(m.PID)
	}
	for _, m := range s.fleet.of(control.Client) {
		sample.Client.Proportional += s.System.Proportional(m.PID)
	}
	return sample, nil
}

// idle looks at the memory when nothing is going on, and garbage has been collected.
func (s *session) idle(ctx context.Context) (err error) {
	if servers, _ := s.plan.Processes(); servers > fewProcesses {
		s.Progress.Phase("idle", 0)
		select {
		case <-time.After(idleTime):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.result.Memory.Idle, err = s.memory(ctx, control.Sample{Collects: true})
	return err
}

// quickMemory is memory with what is known of processes already.
func (s *session) quickMemory() result.MemorySample {
	kernel := s.System.Kernel(false)
	sample := result.MemorySample{Slab: kernel.Slab, SockBuffer: kernel.SockBuffer}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	for _, m := range s.fleet.members {
		sum := &sample.Server
		if m.Role == control.Client {
			sum = &sample.Client
			sample.Connections += m.stats.Connections
		}
		usage := s.System.Usage(m.PID)
		sum.RSS += usage.RSS
		sum.Anon += usage.Anon
		sum.Heap += m.stats.Heap
		sum.Stacks += m.stats.Stacks
		sum.Runtime += m.stats.Runtime
		sum.Goroutines += m.stats.Goroutines
	}
	return sample
}
