package netconn

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// taskPool implements engine.Workers. Each Task runs on a goroutine that ends when
// no Task is queued.
type taskPool struct {
	driver *driver

	mu      sync.Mutex
	queue   []engine.Task // waiting because of MaxWorkers
	running int
	excused int
	isOver  bool // Shutdown has ended, or has given up
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
	p.fill()
}

// Excuse implements engine.Workers.
func (p *taskPool) Excuse(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.excused += n
	p.fill()
}

// fill starts as many queued Tasks as may run; mu is held.
func (p *taskPool) fill() {
	for len(p.queue) > 0 && p.mayRun() {
		p.running++
		go p.work(p.pop())
	}
}

// mayRun tells whether one more Task may run; mu is held.
func (p *taskPool) mayRun() bool {
	limit := p.driver.options.MaxWorkers
	return limit == 0 || p.running-p.excused < limit
}

// pop takes the first Task from the queue; mu is held.
func (p *taskPool) pop() engine.Task {
	t := p.queue[0]
	p.queue[0] = nil
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = nil
	}
	return t
}

// work runs t and what is queued after it.
func (p *taskPool) work(t engine.Task) {
	hasReturned := false
	defer func() {
		if !hasReturned { // t called Goexit
			p.ended()
		}
	}()
	for t != nil {
		engine.RunTask(t)
		t = p.next()
	}
	hasReturned = true
}

// next returns the next Task for a goroutine whose Task has ended. Nil means that
// the goroutine is not needed.
func (p *taskPool) next() engine.Task {
	p.mu.Lock()
	if p.running--; len(p.queue) > 0 && p.mayRun() {
		p.running++
		defer p.mu.Unlock()
		return p.pop()
	}
	isLast := p.running == 0 && len(p.queue) == 0
	p.mu.Unlock()
	if isLast {
		p.driver.tellEmptied()
	}
	return nil
}

// ended replaces a goroutine that has ended in the middle of its Task.
func (p *taskPool) ended() {
	if t := p.next(); t != nil {
		go p.work(t)
	}
}

// count returns the number of Tasks that are queued or running.
func (p *taskPool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) + p.running
}

// end makes Go lose its Tasks from now on. False: there are still some.
func (p *taskPool) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue)+p.running > 0 {
		return false
	}
	p.isOver = true
	return true
}

// loseQueued is end for a Shutdown that has given up: it loses the Tasks that have
// not begun.
func (p *taskPool) loseQueued() {
	p.mu.Lock()
	lost := p.queue
	p.queue, p.isOver = nil, true
	p.mu.Unlock()
	for _, t := range lost {
		go t.Lost(engine.ErrShutdown)
	}
}
