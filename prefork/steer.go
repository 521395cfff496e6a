package prefork

import (
	"sync"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

const (
	// siblingPatience is the age of a sign of life from which a sibling gets
	// nothing: it may be stopped.
	siblingPatience = 2 * time.Second
	// steerSlack is by how many connections a worker may be ahead of the one with
	// the fewest; steerShare adds a part of those, lest thousands of connections
	// are passed on for the sake of a few.
	steerSlack = 2
	steerShare = 16
	// briefly is the time within which turnoverSpan connections must have come,
	// and half as many ended, for connections to count as short-lived.
	briefly      = 100 * time.Millisecond
	turnoverSpan = 16
)

// A board is a worker's place on the scoreboard, and what it sees there of its
// siblings.
type board struct {
	segment *shared.Segment
	page    *shared.Page
	recent  turnover
}

// newBoard says on the scoreboard which worker this is.
func newBoard(s *shared.Segment, info WorkerInfo) *board {
	b := &board{segment: s, page: s.Page()}
	b.page.Set(shared.Slot, uint64(max(info.Slot, 0)))
	b.page.Set(shared.Generation, uint64(info.Generation))
	return b
}

// enter says what the worker is doing.
func (b *board) enter(s shared.State) { b.page.Set(shared.ProcessState, uint64(s)) }

// loadOf is the number of connections that a worker has, and of those that are on
// their way to it.
func loadOf(p *shared.Page) int64 {
	// Done first: what ends in between counts twice rather than not at all.
	done := p.Get(shared.Done)
	return max(int64(p.Get(shared.Accepted)-done)+int64(p.Get(shared.Inbound)), 0)
}

// target returns the sibling that a connection which was just accepted had
// better go to, and nil if it had better stay.
func (b *board) target() *shared.Page {
	mine := loadOf(b.page) // with that one
	if mine <= steerSlack {
		return nil
	}
	var best *shared.Page
	fewest := mine
	for p := range b.segment.Others() {
		if shared.State(p.Get(shared.ProcessState)) != shared.Ready {
			continue
		}
		if n := loadOf(p); n < fewest && b.segment.Now()-int64(p.Get(shared.Heartbeat)) < int64(siblingPatience) {
			best, fewest = p, n
		}
	}
	if best == nil || mine <= fewest+steerSlack+fewest/steerShare {
		return nil
	}
	return best
}

// arrived takes a connection off the page of the process that it was announced
// to, which may be another one than has got it: the predecessor in the slot, or
// one that serves for it meanwhile.
func (b *board) arrived(announcedTo int) {
	if b.page.PID() == announcedTo {
		b.page.Sub(shared.Inbound, 1)
		return
	}
	for p := range b.segment.Others() {
		if p.PID() == announcedTo {
			p.Sub(shared.Inbound, 1)
		}
	}
}

// A turnover tells whether connections end about as fast as they come. Those
// balance by themselves: passing one on costs a fifth of a request on a
// connection of its own, and it is over before that has paid.
type turnover struct {
	mu       sync.Mutex // one listener's connections come one after the other, several listeners' do not
	last     [turnoverSpan]arrival
	count    int
	diverted uint64 // connections that were passed on: they count as done, too
}

// An arrival is when a connection came, and how many had ended by then.
type arrival struct {
	when  int64
	ended uint64
}

// isQuick takes in that a connection has come.
func (t *turnover) isQuick(now int64, done uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	this := arrival{now, done - t.diverted}
	oldest := t.last[t.count%turnoverSpan]
	t.last[t.count%turnoverSpan] = this
	t.count++
	return t.count > turnoverSpan && this.when-oldest.when < int64(briefly) && this.ended-oldest.ended >= turnoverSpan/2
}

// passedOn takes in that the connection was passed on.
func (t *turnover) passedOn() {
	t.mu.Lock()
	t.diverted++
	t.mu.Unlock()
}

// announce says on a sibling's page that a connection is about to be sent to it. It
// returns false, and takes that back, if the sibling does not serve: one that stops
// waits for what is announced, so it either has seen this or is seen to stop.
func announce(to *shared.Page) bool {
	to.Add(shared.Inbound, 1)
	if shared.State(to.Get(shared.ProcessState)) == shared.Ready {
		return true
	}
	to.Sub(shared.Inbound, 1)
	return false
}

// divert is sluice.Server.Divert: a connection that was just accepted goes to
// the sibling with the fewest, if this worker has several more.
func (w *worker) divert(fd int) bool {
	b := w.board
	if b.recent.isQuick(b.segment.Now(), b.page.Get(shared.Done)) {
		return false
	}
	to := b.target()
	if to == nil {
		return false
	}
	if !announce(to) {
		return false
	}
	if w.link.Post(int(to.Get(shared.Slot)), fd, appendParcel(nil, to.PID(), nil), 0) != nil {
		to.Sub(shared.Inbound, 1)
		return false
	}
	b.recent.passedOn()
	return true
}
