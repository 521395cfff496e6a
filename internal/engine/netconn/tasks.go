package netconn

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// taskPool implements engine.Workers. Each Task runs on a goroutine of its own.
type taskPool struct {
	driver *driver

	mu      sync.Mutex
	queue   []engine.Task // waiting because of MaxWorkers
	running int
	excused int
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
		go p.run(t)
	}
}

func (p *taskPool) run(t engine.Task) {
	defer p.ended() // even if t calls Goexit
	engine.RunTask(t)
}

func (p *taskPool) ended() {
	p.mu.Lock()
	p.running--
	p.fill()
	isLast := p.running == 0 && len(p.queue) == 0
	p.mu.Unlock()
	if isLast {
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
	p.isOver = p.isOver || len(p.queue)+p.running == 0
	return len(p.queue)+p.running == 0
}

// loseQueued is end for a Shutdown that no longer waits: it loses the Tasks that have
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
