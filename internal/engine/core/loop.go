//go:build linux && (amd64 || arm64)

package core

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A loop is a Poller, the goroutine that runs it, and the workers that serve its
// connections.
type loop struct {
	driver *driver
	index  int    // in driver.loops
	poller Poller // nil: not running

	_       cacheLine
	queue   runQueue
	open    atomic.Int64   // connections
	compact atomic.Int64   // of them, compact TLS connections
	cold    atomic.Int64   // of these, those that have cooled down
	held    atomic.Int64   // buffers that connections keep while they wait
	spell   spell          // of the workers
	passed  atomic.Int64   // when the last pass began, in clock.Nanos
	gone    sync.WaitGroup // the loop's goroutine and the workers'

	// The loop's goroutine has what follows, but for the mutex of probes.
	_      cacheLine
	ready  []int32 // claimed, and not queued yet
	queued int     // connections, since queue.sinceLast
	intake intake
	probes probes
	direct direct
}

// newLoop returns a loop that is not running yet.
func newLoop(d *driver, index int) *loop {
	l := &loop{driver: d, index: index}
	l.intake.init(l)
	l.direct.gap, l.direct.slow = directGap, directSlow
	l.direct.isAllowed = runtime.GOMAXPROCS(0) > 1 && d.options.MaxWorkers <= 0
	l.queue.init(d.options.MaxWorkers, d.options.MaxIdleWorkerTime, l.startWorker)
	l.queue.neverBlocks, l.queue.emptied = d.neverBlocks, d.tellEmptied
	return l
}

// start makes the loop run.
func (l *loop) start() error {
	poller, err := l.driver.source.Open()
	if err != nil {
		return err
	}
	l.poller = poller
	l.gone.Add(1)
	l.probes.begin(poller)
	l.openBatches(runtime.GOMAXPROCS(0))
	go l.run()
	return nil
}

// close ends the loop and its workers.
func (l *loop) close() {
	l.queue.close()
	_ = l.poller.Close()
	l.gone.Wait()
	l.closeBatches()
}

func (l *loop) startWorker(w *worker) {
	w.loop = l
	l.gone.Add(1)
	go w.run()
}

// pass handles the events that have come together: first those of open connections.
func (l *loop) pass(events []Event) Then {
	last, now := l.passed.Load(), clock.Nanos()
	l.passed.Store(now)
	asked := l.probes.take()
	l.dispatch(events)
	if l.servesReady(len(events), last, now) {
		if asked != nil {
			close(asked)
		}
		return Serve
	}
	room, again := l.room(now-last), false
	if len(l.intake.servings) > 0 {
		room = l.queueReady(room)
		again = l.intake.pass()
	}
	l.queueReady(room)
	again = again || len(l.ready) > 0
	if asked != nil {
		close(asked)
	}
	if again {
		return Again
	}
	return Park
}

// While handlers wait, perhaps for something that the next look at the network finds, a pass queues
// no more connections than begin portion requests: one each, or as many tasks as the last ones. If
// all requests that are there were begun before one of them went on, none would be in the
// processor's cache any more when its turn comes.
const (
	portion = 32
	// If passes are so far apart, handlers compute, or others have the processor. Nanoseconds.
	portionPatience = 8_000_000
)

// room returns how many connections the pass may queue. elapsed is the time since the last one
// began, in nanoseconds.
func (l *loop) room(elapsed int64) int {
	room := math.MaxInt
	if (len(l.ready) > 1 || len(l.intake.servings) > 0) && elapsed < portionPatience {
		if handlersWait, tasks := l.queue.sinceLast(); handlersWait {
			room = max(portion*max(l.queued, 1)/max(l.queued, tasks, 1), 1)
		}
		l.queued = 0
	}
	return room
}

// queueReady queues connections that are ready, room at most. It returns how many more the pass
// may queue.
func (l *loop) queueReady(room int) int {
	n := min(len(l.ready), room)
	l.queued += n
	l.queue.push(l.ready[:n]...)
	l.ready = l.ready[:copy(l.ready, l.ready[n:])]
	return room - n
}

// dispatch handles events, and adds the connections that it claims to ready.
func (l *loop) dispatch(events []Event) {
	d, ready := l.driver, l.ready
	for i := range events {
		event := &events[i]
		fd, gen := int(int32(event.Token)), generation(event.Token)
		if gen == 0 {
			l.intake.add(d.servingAt(uint16(fd)))
			continue
		}
		s := d.table.slot(fd)
		if s == nil {
			continue
		}
		if s.deliverInput(gen, event.Flags) {
			ready = append(ready, int32(fd))
		} else if claimed, woken := s.deliver(gen, event.Flags); claimed {
			ready = append(ready, int32(fd))
		} else if p := d.table.find(fd); woken != 0 && p.chunk != nil { // it may have ended meanwhile
			p.wake(fd, gen, woken)
		}
	}
	l.ready = ready
}

// wake signals the goroutines of a busy connection whose waits have ended.
func (p place) wake(fd int, gen uint32, woken uint64) {
	c := p.conn().Load()
	if c == nil {
		return
	}
	c.signal(woken)
	if woken&flagWatch == 0 {
		return
	}
	go c.gone.FireFor(noticeKey(fd, gen)) // c may belong to another connection by now
}
