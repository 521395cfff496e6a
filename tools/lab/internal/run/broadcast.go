//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
)

const (
	// broadcastLimit is how long a broadcast may take to reach everybody.
	broadcastLimit = 2 * time.Minute
	maxBroadcasts  = 1000
)

// broadcast has servers send messages to all WebSockets, each when the last one has reached
// everybody.
func (s *session) broadcast(ctx context.Context) error {
	if s.Broadcasts == 0 {
		return nil
	}
	s.Progress.Phase("broadcasts", s.Broadcasts)
	before, err := s.counts(ctx)
	if err != nil {
		return err
	}
	for i := range s.Broadcasts {
		at := control.Nanos()
		for _, m := range s.fleet.of(control.Server) {
			if err := m.link.Send(control.Message{Broadcast: &control.Broadcast{At: at}}); err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
		}
		if err := s.waitHeard(ctx, (i+1)*s.result.Connect.Made); err != nil {
			return err
		}
		after, err := s.counts(ctx)
		if err != nil {
			return err
		}
		round, err := s.heard(at)
		if err != nil {
			return err
		}
		round.ServerCPU, round.ClientCPU = after.serverCPU-before.serverCPU, after.clientCPU-before.clientCPU
		round.MachineCPU = after.machineCPU - before.machineCPU
		before = after
		s.result.Broadcasts = append(s.result.Broadcasts, round)
		s.Progress.Set(i+1, "")
	}
	s.countLost()
	return nil
}

// waitHeard waits until clients have received so many messages, or for broadcastLimit.
func (s *session) waitHeard(ctx context.Context, wanted int) error {
	err := s.fleet.wait(ctx, broadcastLimit, func() bool {
		total := 0
		for _, m := range s.fleet.ofLocked(control.Client) {
			total += m.stats.HeardTotal
		}
		return total >= wanted
	}, nil)
	if errors.Is(err, errTimeout) {
		return nil // the result tells how many are missing
	}
	return err
}

// heard sums up what clients have received of the broadcast that was ordered at a time.
func (s *session) heard(at int64) (b result.Broadcast, err error) {
	var histograms [][]byte
	s.fleet.each(control.Client, func(m *member) {
		h := m.stats.Heard
		if h == nil || h.At != at {
			return
		}
		first, last := time.Duration(h.First-at), time.Duration(h.Last-at)
		if b.Received == 0 || first < b.First {
			b.First = first
		}
		b.Received += h.Count
		b.Last = max(b.Last, last)
		histograms = append(histograms, h.Latencies)
	})
	b.Latency, err = result.MergeLatencies(histograms)
	return b, err
}
