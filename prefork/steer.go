package prefork

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

const (
	// siblingPatience is the age of a heartbeat from which a sibling gets no
	// connections, because it may be stopped.
	siblingPatience = 2 * time.Second
	// steerSlack is by how many connections a worker may exceed the sibling with the
	// fewest. 1/steerShare of the sibling's connections is added to it, so that
	// workers with thousands of connections do not pass them on for a small
	// difference.
	steerSlack = 2
	steerShare = 16
	// Connections count as short-lived if, within briefly, turnoverSpan have come and
	// half as many have ended.
	briefly      = 100 * time.Millisecond
	turnoverSpan = 16
)

// A board gives a worker access to its own page of the scoreboard and to those of
// its siblings.
type board struct {
	segment *shared.Segment
	page    *shared.Page
	recent  turnover
	isFull  atomic.Bool // a connection came for which there was no descriptor
	slow    slowList
}

// newBoard returns the worker's board, and writes the worker's slot and generation
// to its page.
func newBoard(s *shared.Segment, info WorkerInfo) *board {
	b := &board{segment: s, page: s.Page()}
	b.page.Set(shared.Slot, uint64(max(info.Slot, 0)))
	b.page.Set(shared.Generation, uint64(info.Generation))
	return b
}

// enter writes the worker's state.
func (b *board) enter(s shared.State) { b.page.Set(shared.ProcessState, uint64(s)) }

// loadOf returns the number of a worker's open connections and of those announced
// to it.
func loadOf(p *shared.Page) int64 {
	// Read Done before Accepted: a connection that ends in between then counts as
	// open, and the difference is not negative.
	done := p.Get(shared.Done)
	return max(int64(p.Get(shared.Accepted)-done)+int64(p.Get(shared.Inbound)), 0)
}

// target returns the sibling that should serve a connection which was just
// accepted; nil if this worker should serve it.
func (b *board) target() *shared.Page {
	mine := loadOf(b.page) // includes the new connection
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

// markHung makes siblings send no connection to a process that hangs.
func markHung(s *shared.Segment, pid int) {
	for p := range s.Others() {
		if p.PID() == pid {
			p.Set(shared.ProcessState, uint64(shared.Hung))
		}
	}
}

// isInboxShared reports whether a process that hangs may read the inbox of a slot, too. What it
// takes there is lost when it is killed.
func (b *board) isInboxShared(slot uint64) bool {
	for p := range b.segment.Others() {
		if shared.State(p.Get(shared.ProcessState)) == shared.Hung && p.Get(shared.Slot) == slot {
			return true
		}
	}
	return false
}

// arrived subtracts a connection from Inbound of the process to which it was
// announced. That may be another process than the one that received it: its
// predecessor in the slot, or a worker of the slot whose inbox it reads.
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

// A turnover reports whether connections end about as fast as they come. Such
// connections need no balancing: passing one on costs a fifth of a request on a
// separate connection, and the connection ends before that cost is recovered.
type turnover struct {
	mu       sync.Mutex // several listeners accept concurrently
	last     [turnoverSpan]arrival
	count    int
	diverted uint64 // connections that were passed on, which Done counts too
}

// An arrival is when a connection came, and how many had ended by then.
type arrival struct {
	when  int64
	ended uint64
}

// isQuick records a new connection, and reports whether connections are short-lived.
func (t *turnover) isQuick(now int64, done uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	this := arrival{now, done - t.diverted}
	oldest := t.last[t.count%turnoverSpan]
	t.last[t.count%turnoverSpan] = this
	t.count++
	return t.count > turnoverSpan && this.when-oldest.when < int64(briefly) && this.ended-oldest.ended >= turnoverSpan/2
}

// passedOn records that the connection was passed on.
func (t *turnover) passedOn() {
	t.mu.Lock()
	t.diverted++
	t.mu.Unlock()
}

// announce adds a connection that is about to be sent to Inbound of a worker. If the
// worker is not ready, or has no descriptor for it, announce undoes this and returns
// false: the kernel drops what a receiver has no descriptor for. It also does so while a
// predecessor that hangs may take the connection. A sibling that
// stops first changes its state and then waits until Inbound is 0. So either it
// sees the announcement, or announce sees the changed state.
func (b *board) announce(to *shared.Page) bool {
	to.Add(shared.Inbound, 1)
	room := to.Get(shared.Room)
	if shared.State(to.Get(shared.ProcessState)) == shared.Ready && (room == 0 || loadOf(to) < int64(room)) && !b.isInboxShared(to.Get(shared.Slot)) {
		return true
	}
	to.Sub(shared.Inbound, 1)
	return false
}
