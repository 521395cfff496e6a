//go:build linux && (amd64 || arm64)

package core

import (
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
	ready  []int32 // claimed in this pass
	intake intake
	probes probes
}

// newLoop returns a loop that is not running yet.
func newLoop(d *driver, index int) *loop {
	l := &loop{driver: d, index: index}
	l.intake.init(l)
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
	l.openBatches()
	go func() { // until the poller is closed
		defer l.gone.Done()
		defer l.probes.end()
		poller.Run(l.pass)
	}()
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
func (l *loop) pass(events []Event) (again bool) {
	l.passed.Store(clock.Nanos())
	asked := l.probes.take()
	for i := range events {
		l.dispatch(&events[i])
	}
	if len(l.intake.servings) > 0 {
		l.queueReady()
		again = l.intake.pass()
	}
	l.queueReady()
	if asked != nil {
		close(asked)
	}
	return again
}

func (l *loop) queueReady() {
	l.queue.push(l.ready...)
	l.ready = l.ready[:0]
}

// dispatch handles one event.
func (l *loop) dispatch(event *Event) {
	fd, gen := int(int32(event.Token)), generation(event.Token)
	if gen == 0 {
		l.intake.add(l.driver.servingAt(uint16(fd)))
		return
	}
	p := l.driver.table.find(fd)
	if p.chunk == nil {
		return
	}
	claimed, woken := p.slot().deliver(gen, event.Flags)
	if claimed {
		l.ready = append(l.ready, int32(fd))
	} else if woken != 0 {
		p.wake(fd, gen, woken)
	}
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
