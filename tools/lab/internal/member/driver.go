//go:build linux

package member

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// A driver decides when connections send.
type driver interface {
	// answered is called when an answer has come; again says that the next
	// request is to be sent on the same connection at once.
	answered(p *peer, now time.Duration) (again bool)
	// lost is called when a connection has ended.
	lost(p *peer)
}

// resting is the driver when nothing is measured.
type resting struct{}

func (resting) answered(*peer, time.Duration) bool { return false }
func (resting) lost(*peer)                         {}

const (
	// longestLatency is the end of the histograms, in microseconds: an hour.
	longestLatency = int64(time.Hour / time.Microsecond)
	// significantDigits is their resolution.
	significantDigits = 3
	// patience is how long answers are waited for when time is up.
	patience = 30 * time.Second
	// poll is how often a measurement looks whether it is over.
	poll = 2 * time.Millisecond
)

// tally is what all drivers count.
type tally struct {
	client   *client
	from, to time.Duration // when requests are sent; to may be passed to end a sweep

	mu        sync.Mutex
	latencies *hdrhistogram.Histogram
	completed uint64
	out       int           // requests on their way
	abandoned int           // requests whose connection has ended
	last      time.Duration // when the last answer came
}

func newTally(c *client, from time.Duration, order control.Run) *tally {
	return &tally{
		client: c, from: from, to: from + order.Duration,
		latencies: hdrhistogram.New(1, longestLatency, significantDigits),
	}
}

// sends notes that a request is going to be sent; mu is held.
func (t *tally) sends(p *peer, intended time.Duration) {
	t.out++
	p.intended, p.isOut = intended, true
}

// record takes in an answer; mu is held.
func (t *tally) record(p *peer, now time.Duration) {
	t.out--
	p.isOut = false
	t.completed++
	t.last = now
	_ = t.latencies.RecordValue(min(max(int64((now-p.intended)/time.Microsecond), 1), longestLatency))
}

// kick sends a request on a connection whose callback is not running. A
// connection that has ended meanwhile has been told to lost, or will be.
func (t *tally) kick(p *peer) {
	if err := p.sender.TrySend(t.client.request); err != nil {
		t.client.note(err)
		t.client.driver().lost(p)
	}
}

// lost counts the request of a connection that has ended.
func (t *tally) lost(p *peer) { t.abandon(p) }

// abandon reports whether a request was on its way.
func (t *tally) abandon(p *peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !p.isOut {
		return false
	}
	p.isOut = false
	t.out--
	t.abandoned++
	return true
}

// done returns what was measured.
func (t *tally) done() control.Done {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := t.latencies.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.client.note(err)
	}
	return control.Done{
		Completed: t.completed, Elapsed: max(t.last-t.from, 0), Unanswered: t.out + t.abandoned, Latencies: text,
	}
}

// isQuiet reports whether no request is on its way.
func (t *tally) isQuiet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out == 0
}

// A measurement is a driver that can be waited for.
type measurement interface {
	driver
	begin()
	isOver(now time.Duration) bool
	done() control.Done
	isQuiet() bool
}

// measure carries out a Run.
func (c *client) measure(order control.Run) {
	time.Sleep(time.Until(order.Start))
	from := c.now()
	m := c.newMeasurement(order, from)
	c.mu.Lock()
	c.drive = m
	c.mu.Unlock()
	if s, ok := m.(*sweep); ok && order.Turns {
		c.takeTurns(s)
	} else {
		m.begin()
		c.waitFor(m)
	}
	for end := c.now() + patience; !m.isQuiet() && c.now() < end; {
		time.Sleep(poll)
	}
	done := m.done()
	c.mu.Lock()
	c.drive = resting{}
	c.mu.Unlock()
	c.send(c.stats(false))
	_ = c.link.Send(control.Message{Done: &done})
}

// waitFor returns when m is over.
func (c *client) waitFor(m measurement) {
	for !m.isOver(c.now()) {
		time.Sleep(poll)
	}
}

// turnsWaiting is how many turns may wait in a client: one, and the last.
const turnsWaiting = 2

// takeTurns sweeps once for each turn, until the last.
func (c *client) takeTurns(s *sweep) {
	for turn := range c.turns {
		if turn.IsLast {
			return
		}
		s.mu.Lock()
		s.to = c.now() // one sweep, and no more
		s.mu.Unlock()
		s.begin()
		c.waitFor(s)
		_ = c.link.Send(control.Message{Turned: &control.Turned{}})
	}
}

func (c *client) newMeasurement(order control.Run, from time.Duration) measurement {
	c.mu.Lock()
	peers := c.peers
	c.mu.Unlock()
	peers = peers[:min(order.Active, len(peers))]
	t := newTally(c, from, order)
	switch {
	case c.config.Scenario.Workload.Kind == scenario.Discard:
		return &monologue{tally: t, peers: peers, perSec: order.PerSec}
	case order.Mode == control.Rate:
		return newSchedule(t, peers, order.PerSec)
	case order.Mode == control.Loop:
		return &loop{tally: t, peers: peers}
	}
	return &sweep{tally: t, peers: peers, window: max(order.InFlight, 1)}
}
