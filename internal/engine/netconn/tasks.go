package netconn

import (
	"runtime"
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// taskPool implements engine.Workers. Its goroutines run one Task after another. Any
// Task may block, so while some are queued, a goroutine must be about to look at the
// queue: one that takes a Task and leaves others calls a spare, unless there is one. If
// nothing blocks, one goroutine runs all that came together.
type taskPool struct {
	driver *driver
	wake   chan struct{} // to goroutines that wait

	mu      sync.Mutex
	queue   []engine.Task // first come, first served
	running int
	exempt  int
	waiting int  // goroutines that wait for a Task
	isSpare bool // a goroutine was called that has not looked at the queue yet
	isOver  bool // Tasks are lost from now on
}

// Go implements engine.Workers.
func (p *taskPool) Go(t engine.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isOver {
		go t.Lost(engine.ErrShutdown)
		return
	}
	p.queue = append(p.queue, t)
	p.callSpareLocked()
}

// Exempt implements engine.Workers.
func (p *taskPool) Exempt(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exempt += n
	p.callSpareLocked()
}

// mayRunLocked reports whether there is a Task that MaxWorkers allows to run; mu is held.
func (p *taskPool) mayRunLocked() bool {
	limit := p.driver.options.MaxWorkers
	return len(p.queue) > 0 && (limit == 0 || p.running-p.exempt < limit)
}

// callSpareLocked calls a goroutine if one is needed; mu is held.
func (p *taskPool) callSpareLocked() {
	switch {
	case p.isSpare || !p.mayRunLocked():
		return
	case p.waiting > 0:
		p.waiting--
		p.wake <- struct{}{}
	default:
		go p.work()
	}
	p.isSpare = true
}

// maxWaiting bounds taskPool.waiting. A new goroutine costs more than one that waits,
// because its stack must grow in several steps.
const maxWaiting = 64

// tasksInARow is how many Tasks a goroutine runs before it yields to the connections.
const tasksInARow = 64

// work is a goroutine that runs Tasks.
func (p *taskPool) work() {
	done := 0
	for ok := true; ok; _, ok = <-p.wake {
		p.mu.Lock()
		p.isSpare = false
		for p.mayRunLocked() {
			t := p.queue[0]
			p.queue[0] = nil
			if p.queue = p.queue[1:]; len(p.queue) == 0 {
				p.queue = nil
			}
			p.running++
			p.callSpareLocked()
			p.mu.Unlock()
			p.run(t)
			if done++; done%tasksInARow == 0 {
				runtime.Gosched()
			}
			p.mu.Lock()
			p.endedLocked()
		}
		waits := p.waiting < maxWaiting && !p.isOver
		if waits {
			p.waiting++
		}
		p.mu.Unlock()
		if !waits {
			return
		}
	}
}

// run runs t. If t calls Goexit, its goroutine ends here.
func (p *taskPool) run(t engine.Task) {
	hasReturned := false
	defer func() {
		if !hasReturned {
			p.mu.Lock()
			p.endedLocked()
			p.callSpareLocked()
			p.mu.Unlock()
		}
	}()
	engine.RunTask(t)
	hasReturned = true
}

// endedLocked counts the end of a Task; mu is held.
func (p *taskPool) endedLocked() {
	if p.running--; p.running == 0 && len(p.queue) == 0 {
		p.driver.tellEmptied()
	}
}

// count returns the number of Tasks that are queued or running.
func (p *taskPool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) + p.running
}

// end makes Go lose its Tasks from now on, unless some have not ended.
func (p *taskPool) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue)+p.running > 0 {
		return false
	}
	p.setOverLocked()
	return true
}

// setOverLocked makes Go lose its Tasks, and ends the goroutines that wait; mu is held.
func (p *taskPool) setOverLocked() {
	if !p.isOver {
		p.isOver = true
		close(p.wake)
	}
}

// loseQueued is end for a Shutdown that no longer waits: it loses the Tasks that have
// not begun.
func (p *taskPool) loseQueued() {
	p.mu.Lock()
	lost := p.queue
	p.queue = nil
	p.setOverLocked()
	p.mu.Unlock()
	for _, t := range lost {
		go t.Lost(engine.ErrShutdown)
	}
}

// Workers implements engine.Engine.
func (d *driver) Workers(uint64) engine.Workers { return &d.tasks }
