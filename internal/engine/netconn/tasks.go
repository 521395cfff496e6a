package netconn

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// taskPool implements engine.Workers. Each Task has a goroutine while it runs.
type taskPool struct {
	driver *driver
	handed chan engine.Task // to goroutines that wait

	mu      sync.Mutex
	queue   []engine.Task // waiting because of MaxWorkers
	running int
	excused int
	waiting int  // goroutines that wait for a Task
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
	limit := p.driver.options.MaxWorkers
	for len(p.queue) > 0 && (limit == 0 || p.running-p.excused < limit) {
		t := p.queue[0]
		p.queue[0] = nil
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
		p.running++
		if p.waiting > 0 {
			p.waiting--
			p.handed <- t
		} else {
			go p.work(t)
		}
	}
}

// maxWaiting bounds taskPool.waiting. A new goroutine costs more than one that waits,
// because its stack must grow in several steps.
const maxWaiting = 64

// work is a goroutine that runs t, and others after it.
func (p *taskPool) work(t engine.Task) {
	for ok := true; ok; t, ok = <-p.handed {
		if !p.run(t) {
			return
		}
	}
}

// run runs t, and tells whether the caller is to wait for another Task.
func (p *taskPool) run(t engine.Task) (waits bool) {
	hasReturned := false // or t calls Goexit
	defer func() { waits = p.ended(hasReturned) }()
	engine.RunTask(t)
	hasReturned = true
	return
}

// ended counts the end of a Task, and tells whether its goroutine, if it mayWait, waits.
func (p *taskPool) ended(mayWait bool) (waits bool) {
	p.mu.Lock()
	p.running--
	p.fill()
	isLast := p.running == 0 && len(p.queue) == 0
	if mayWait && p.waiting < maxWaiting && !p.isOver {
		p.waiting++
		waits = true
	}
	p.mu.Unlock()
	if isLast {
		p.driver.tellEmptied()
	}
	return waits
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
	p.setOver()
	return true
}

// setOver makes Go lose its Tasks, and ends the goroutines that wait; mu is held.
func (p *taskPool) setOver() {
	if !p.isOver {
		p.isOver = true
		close(p.handed)
	}
}

// loseQueued is end for a Shutdown that no longer waits: it loses the Tasks that have
// not begun.
func (p *taskPool) loseQueued() {
	p.mu.Lock()
	lost := p.queue
	p.queue = nil
	p.setOver()
	p.mu.Unlock()
	for _, t := range lost {
		go t.Lost(engine.ErrShutdown)
	}
}
