package prefork

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/sluicehttp/sluice/internal/supervise"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// noticeName is the name of the master's notice in the segment.
	noticeName = "prefork.status"
	// The room for the notice: a slot and its process take less than 512 bytes.
	noticeHead       = 4 << 10
	noticePerProcess = 512
	// publishInterval is how often the master looks for what has changed without
	// a hook being called: the sockets' queues, for instance.
	publishInterval = time.Second
	// publishPause is how long it waits after a hook was called: for more of them,
	// and for the supervisor to know too.
	publishPause = 10 * time.Millisecond
)

// A publisher tells workers what only the master knows.
type publisher struct {
	segment *shared.Segment
	place   *shared.Config // nil: there is no room
	changed chan struct{}
	last    []byte
}

// newPublisher has c's hooks say when there is something new. Its publish is to
// be started when the master runs.
func newPublisher(c *supervise.Config, s *shared.Segment) *publisher {
	p := &publisher{segment: s, place: noticePlace(s), changed: make(chan struct{}, 1)}
	if p.place == nil && c.Logger != nil {
		c.Logger.Printf("the shared segment has no room for the master's status: workers do not know it")
	}
	hooks := &c.Hooks
	spawn, reaped, recovered, ready, stopping := hooks.OnSpawn, c.OnReaped, hooks.OnRecover, hooks.OnFleetReady, hooks.OnStopping
	hooks.OnSpawn = func(slot, pid int) error {
		p.poke()
		if spawn != nil {
			return spawn(slot, pid)
		}
		return nil
	}
	c.OnReaped = func(slot, pid int) {
		if reaped != nil {
			reaped(slot, pid)
		}
		p.poke()
	}
	hooks.OnRecover = func(slot, oldPID, newPID int) {
		p.poke()
		if recovered != nil {
			recovered(slot, oldPID, newPID)
		}
	}
	hooks.OnFleetReady = func() {
		p.poke()
		if ready != nil {
			ready()
		}
	}
	hooks.OnStopping = func() {
		p.poke()
		if stopping != nil {
			stopping()
		}
	}
	return p
}

// noticePlace is where the notice is in the segment: of the same size in all
// processes.
func noticePlace(s *shared.Segment) *shared.Config {
	place, err := s.Config(noticeName, noticeHead+noticePerProcess*s.Processes())
	if err != nil {
		return nil
	}
	return place
}

// poke has the notice written soon.
func (p *publisher) poke() {
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

// store writes the notice if it is not what is there already.
func (p *publisher) store(n *notice) {
	if p.place == nil {
		return
	}
	text, err := json.Marshal(n)
	if err != nil || bytes.Equal(text, p.last) {
		return
	}
	if p.place.Store(text) == nil { // if not, the next time
		p.last = text
	}
}

// readNotice returns what the master has told; nothing if it has not.
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
