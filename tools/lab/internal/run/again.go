//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
)

// askedAgain is how many idle connections are asked once more at the end.
const askedAgain = 2_000

// askAgain has some connections, which have been idle meanwhile, send a request each: those that
// were made first, of each client.
func (s *session) askAgain(ctx context.Context) error {
	if !s.result.Answers() {
		return nil
	}
	s.Progress.Phase("asking again", 0)
	asked := min(askedAgain, s.result.Connect.Made)
	clients := len(s.plan.Clients)
	s.fleet.each(control.Client, func(m *member) { m.done = nil })
	start := time.Now().Add(startDelay)
	for _, m := range s.fleet.of(control.Client) {
		order := control.Run{Mode: control.Sweep, Start: start, Active: plan.Share(asked, clients, m.Index), InFlight: 1}
		if err := m.link.Send(control.Message{Run: &order}); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	err := s.fleet.wait(ctx, afterLimit, func() bool {
		for _, m := range s.fleet.ofLocked(control.Client) {
			if m.done == nil {
				return false
			}
		}
		return true
	}, nil)
	if errors.Is(err, errTimeout) {
		return fmt.Errorf("idle connections are asked again: %w", err)
	}
	if err != nil {
		return err
	}
	again := &s.result.Again
	again.Asked = asked
	s.fleet.each(control.Client, func(m *member) { again.Answered += int(m.done.Completed) })
	s.countLost()
	return nil
}
