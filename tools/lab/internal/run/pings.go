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
)

const (
	// pingSize is the size of the servers' pings. They write nothing else meanwhile.
	pingSize = 2
	// minPings is the shortest time of silence: the fleet's figures come once a second.
	minPings = 2 * time.Second
	// earlyRounds pass before the measurement. In the first one, pings come in the order of
	// the load; the time of silence is another one for each connection, so they then spread.
	earlyRounds = 2
)

// checkPings tells what is wrong with the pings of s.
func checkPings(s *scenario.Scenario) error {
	switch {
	case s.Pings == 0:
		return nil
	case s.Protocol != scenario.WebSocket:
		return errors.New("pings are for WebSockets: --server ws-epoll, for example")
	case s.Server == scenario.Prefork:
		return errors.New("pings are counted by a server's Meter, which is prefork's own in its workers")
	case s.Pings < minPings, s.Pings > maxDuration:
		return fmt.Errorf("a ping comes after %v to %v, not after %v", minPings, maxDuration, s.Pings)
	}
	return nil
}

// pings lets the servers send pings for some rounds, in each of which every connection must
// have one, and measures the last.
func (s *session) pings(ctx context.Context) error {
	after := s.Scenario.Pings
	if after == 0 {
		return nil
	}
	length := after + after/5 // the time of silence is spread by a fifth
	early := earlyRounds * length
	s.Progress.Phase("pings", int((early+length)/time.Second))
	start := time.Now()
	if err := s.fleet.wait(ctx, 2*early, func() bool { return time.Since(start) >= early }, func() {
		s.Progress.Set(int(time.Since(start)/time.Second), "")
	}); err != nil {
		return err
	}
	before, err := s.counts(ctx)
	if err != nil {
		return err
	}
	began, last := time.Now(), before.written
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	p := &result.Pings{After: after}
	for p.Elapsed < length {
		select {
		case <-seconds.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.fleet.failed(); err != nil {
			return err
		}
		now := s.sums().written
		p.MostPerSec = max(p.MostPerSec, (now-last)/pingSize)
		last, p.Elapsed = now, time.Since(began)
		s.Progress.Set(int((early+p.Elapsed)/time.Second), "")
	}
	end, err := s.counts(ctx)
	if err != nil {
		return err
	}
	p.Elapsed = time.Since(began)
	p.Sent = (end.written - before.written) / pingSize
	p.ServerCPU, p.ClientCPU = end.serverCPU-before.serverCPU, end.clientCPU-before.clientCPU
	p.MachineCPU = end.machineCPU - before.machineCPU
	if p.Memory, err = s.memory(ctx, control.Sample{}); err != nil {
		return err
	}
	s.result.Pings = p
	s.countLost()
	return nil
}
