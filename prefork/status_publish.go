package prefork

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// noticeName is the name of the master's notice in the segment.
	noticeName = "prefork.status"
	// The room for the notice: a slot and its process take less than 768 bytes.
	noticeHead       = 4 << 10
	noticePerProcess = 768
	// crashReason bounds what a slot's part says of a crash.
	crashReason = 120
	// publishInterval is how often the master looks for changes for which no hook is
	// called, for instance of the sockets' queues.
	publishInterval = time.Second
	// publishPause is how long the master waits after a hook was called: for further
	// hooks, and until the supervisor's status has changed too.
	publishPause = 10 * time.Millisecond
)

// A publisher writes what only the master knows to the segment, for the workers.
type publisher struct {
	segment *shared.Segment
	place   *shared.Config // nil: there is no room
	changed chan struct{}
	last    []byte
}

// newPublisher wraps c's hooks so that each call wakes the publisher. The caller
// starts publish after it has made the master.
func newPublisher(c *supervise.Config, s *shared.Segment) *publisher {
	p := &publisher{segment: s, place: noticePlace(s), changed: make(chan struct{}, 1)}
	if p.place == nil && c.Logger != nil {
		c.Logger.Printf("the shared segment has no room for the master's status: workers do not know it")
	}
	hooks := &c.Hooks
	spawn, reaped, recovered, ready, stopping := hooks.OnSpawn, c.OnReaped, hooks.OnRecover, hooks.OnFleetReady, hooks.OnStopping
	hooks.OnSpawn = func(slot, pid int) error {
		p.publishSoon()
		if spawn != nil {
			return spawn(slot, pid)
		}
		return nil
	}
	c.OnReaped = func(slot, pid int) {
		if reaped != nil {
			reaped(slot, pid)
		}
		p.publishSoon()
	}
	hooks.OnRecover = func(slot, oldPID, newPID int) {
		p.publishSoon()
		if recovered != nil {
			recovered(slot, oldPID, newPID)
		}
	}
	hooks.OnFleetReady = func() {
		p.publishSoon()
		if ready != nil {
			ready()
		}
	}
	hooks.OnStopping = func() {
		p.publishSoon()
		if stopping != nil {
			stopping()
		}
	}
	return p
}

// noticePlace returns the notice's place in the segment, which has the same size
// in all processes; nil if there is no room.
func noticePlace(s *shared.Segment) *shared.Config {
	place, err := s.Config(noticeName, noticeHead+noticePerProcess*s.Processes())
	if err != nil {
		return nil
	}
	return place
}

// publishSoon makes publish write the notice soon.
func (p *publisher) publishSoon() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// publish keeps the notice up to date, and the master's page on the scoreboard,
// until ctx ends.
func (p *publisher) publish(ctx context.Context, m *supervise.Master) {
	page := newPageWriter(p.segment, p.segment.Page(), nil)
	defer page.close()
	ticker := time.NewTicker(publishInterval)
	defer ticker.Stop()
	for {
		page.write(publishInterval)
		p.store(newNotice(m.Status()))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-p.changed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(publishPause):
			}
		}
	}
}

// store writes the notice if it has changed.
func (p *publisher) store(n *notice) {
	if p.place == nil {
		return
	}
	text, err := json.Marshal(n)
	if err != nil || bytes.Equal(text, p.last) {
		return
	}
	if p.place.Store(text) == nil { // after an error, the next call tries again
		p.last = text
	}
}

// readNotice returns the master's notice; an empty one if there is none.
func readNotice(s *shared.Segment) *notice {
	n := new(notice)
	if place := noticePlace(s); place != nil {
		text, _ := place.Load(nil)
		if json.Unmarshal(text, n) != nil {
			return new(notice)
		}
	}
	return n
}
