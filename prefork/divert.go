package prefork

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// keepPatience bounds how long a connection is kept whose receiver does not answer any more:
	// because it has died, or because this worker ends. The next reader of the inbox may answer.
	keepPatience = 2 * time.Second
	// keepLimit bounds how long a connection is kept at all. It may have been lost with another
	// reader of the inbox than the receiver; its client must then see the end.
	keepLimit = 10 * time.Second
)

// kept holds the connections that were passed on right after accept, until their receivers
// have answered. Their answers are those to a batch, as in a hand-over, before which close
// must be called.
type kept struct {
	settling sync.Mutex // held while places become free
	mu       sync.Mutex // of all that follows: several listeners accept concurrently
	batch    *batch
	places   [handOverBatch]keptConn
	open     int  // places that hold a connection
	isOver   bool // nothing is passed on any more
}

// A keptConn is a connection in the inbox of another worker, or a free place.
type keptConn struct {
	state    keptState
	fd       int // a duplicate
	to       int // the id of the process that answers
	deadline time.Time
}

// A keptState is the state of a place.
type keptState uint8

const (
	keptFree keptState = iota
	keptWaiting
	keptOrphaned // its receiver does not answer any more: the next one has until the deadline
	keptSpoiled  // given up: an answer may still come, so the batch has no other use for it
)

// divert is the sluice.ServerControl.Divert of a worker: it sends a connection that was
// just accepted to the sibling with the fewest, if this worker has several more.
func (w *worker) divert(fd int) bool {
	b := w.board
	if b.recent.isQuick(b.segment.Now(), b.page.Get(shared.Done)) {
		return false
	}
	to := b.target()
	if to == nil || !b.announce(to) {
		return false
	}
	if !w.passOn(to, fd) {
		to.Sub(shared.Inbound, 1)
		return false
	}
	b.recent.passedOn()
	return true
}

// passOn sends a connection to a process, and keeps it until that one has taken it.
func (w *worker) passOn(to *shared.Page, fd int) bool {
	k := &w.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	place := k.freePlaceLocked()
	if k.isOver || place < 0 {
		return false
	}
	own, err := duplicateSocket(fd)
	if err != nil {
		return false
	}
	if k.open == 0 {
		k.batch, k.places, place = w.newBatch(), [handOverBatch]keptConn{}, 0
	}
	l := k.batch.label(to, place)
	if w.link.Post(int(to.Get(shared.Slot)), fd, appendParcel(nil, l, sluice.Parcel{}), 0) != nil {
		closeSocket(own)
		return false
	}
	if l.sender == 0 {
		closeSocket(own)
		return true
	}
	k.places[place] = keptConn{state: keptWaiting, fd: own, to: to.PID(), deadline: time.Now().Add(keepLimit)}
	if k.open++; k.open == 1 {
		go w.watchKept()
	}
	return true
}

// freePlaceLocked returns -1 if there is none.
func (k *kept) freePlaceLocked() int {
	for i := range k.places {
		if k.open == 0 || k.places[i].state == keptFree {
			return i
		}
	}
	return -1
}

// watchKept returns when no connection is kept any more.
func (w *worker) watchKept() {
	before := 0
	for pause := handOverPause; ; pause = min(2*pause, fullPause) {
		time.Sleep(pause)
		left := w.settleKept()
		if left == 0 {
			return
		}
		if left != before {
			before, pause = left, handOverPause
		}
	}
}

// settleKept serves the connections that were refused, and closes this process's descriptors
// of those that were taken. It returns how many are left.
func (w *worker) settleKept() (left int) {
	k, now := &w.kept, time.Now()
	k.settling.Lock()
	defer k.settling.Unlock()
	k.mu.Lock()
	var refused []int
	for i := range k.places {
		c := &k.places[i]
		switch {
		case c.state == keptFree || c.state == keptSpoiled:
		case k.batch.has(shared.Taken, i):
			k.freeLocked(i, keptFree)
		case k.batch.has(shared.Refused, i):
			refused = append(refused, i)
		case now.After(c.deadline):
			k.freeLocked(i, keptSpoiled)
		case c.state == keptWaiting && !w.board.answers(c.to):
			c.state, c.deadline = keptOrphaned, now.Add(keepPatience)
		}
	}
	k.mu.Unlock()
	for _, i := range refused {
		if w.serveKept(k.places[i].fd) {
			k.mu.Lock()
			k.freeLocked(i, keptFree)
			k.mu.Unlock()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// freeLocked closes the descriptor of a place.
func (k *kept) freeLocked(place int, state keptState) {
	closeSocket(k.places[place].fd)
	k.places[place].state = state
	k.batch.forget(place)
	k.open--
}

// serveKept serves a connection that was refused. It returns false if it needs one more
// descriptor for that, and none is free.
func (w *worker) serveKept(fd int) bool {
	own, err := duplicateSocket(fd)
	if err == nil {
		err = w.prefork.server.Control().AdoptSocket(own, sluice.Parcel{})
	}
	if errors.Is(err, syscall.EMFILE) {
		return false
	}
	if err != nil {
		w.logf("a connection is lost: %v", err)
	}
	return true
}

// stopPassing passes no connection on any more. It waits for the answers that are due, for at
// most patience, and closes the descriptors of the other connections, which wait in an inbox.
func (w *worker) stopPassing(ctx context.Context, patience time.Duration) {
	k := &w.kept
	k.mu.Lock()
	k.isOver = true
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	poll(ctx, handOverPause, func() bool { return w.settleKept() == 0 })
	k.settling.Lock()
	defer k.settling.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, c := range k.places {
		if c.state == keptWaiting || c.state == keptOrphaned {
			k.freeLocked(i, keptSpoiled)
		}
	}
}
