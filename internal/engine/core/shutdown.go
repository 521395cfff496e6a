//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"sync"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Shutdown implements engine.Engine. It does not close the listeners.
func (d *driver) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	first := d.life.Reach(engine.StageShutDown)
	if first {
		d.fallback.Workers(0).Go((*stayer)(d))
	}
	d.mu.Unlock()
	others := make(chan error, 1)
	go func() { others <- d.fallback.Shutdown(ctx) }()
	if first {
		go d.drain()
	}
	select {
	case <-d.drained:
	case <-ctx.Done():
		select {
		case <-d.drained:
		default:
			d.killAll()
			<-others // the fallback engine closes its connections, too
			return ctx.Err()
		}
	}
	return <-others
}

// A stayer is the Task that keeps the fallback engine from its end before ours: Tasks of ours may
// bring connections for it.
type stayer driver

// Run implements engine.Task.
func (s *stayer) Run() {
	w := s.fallback.Workers(0)
	w.Exempt(1)
	defer w.Exempt(-1)
	<-s.drained
}

// Lost implements engine.Task: the time for Shutdown is over.
func (s *stayer) Lost(error) {}

// drain carries out a Shutdown, without a time limit.
func (d *driver) drain() {
	// 1. Stop accepting. New servings are refused because of the Stage. A serving
	// counts each accepted connection before it releases its lock.
	if all := d.servings.Load(); all != nil {
		for _, s := range *all {
			if s != nil && s.accepts() {
				s.end(nil)
				<-s.gone // it needs its loop until its end
			}
		}
	}
	// 2. End the connections that are between requests or in a handshake. A
	// connection that parks from now on sees the Stage.
	var idle []int32
	d.table.each(func(fd int, p place) {
		if p.slot().claimIdle(flagEvict) {
			idle = append(idle, int32(fd))
		} else if word := p.slot().word.Load(); word&flagHandshake != 0 {
			d.kill(fd, generation(word))
		}
	})
	d.queueAll(idle)
	// 3. Wait for the others.
	for d.countOpen() > 0 || !d.endTasks() {
		<-d.emptied
	}
	d.sweep.close()
	d.cooler.close()
	d.closeLoops()
	close(d.drained)
}

// closeLoops ends the loops and waits for their workers, which may still finish
// the end of their last connection.
func (d *driver) closeLoops() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range d.loops {
		if l.poller != nil {
			all.Go(l.close)
		}
	}
	all.Wait()
}

// killAll ends all connections in any state. It does not wait for their handlers.
func (d *driver) killAll() {
	d.life.Reach(engine.StageKilling) // connections that enter the table from now on see it
	d.table.each(func(fd int, p place) {
		d.kill(fd, generation(p.slot().word.Load()))
	})
	for _, l := range d.loops {
		l.queue.loseQueued()
	}
}

// kill ends a connection as soon as possible. Reads and writes of a running handler
// fail, and the peer sees the end at once.
func (d *driver) kill(fd int, gen uint32) (isOpen bool) {
	if !d.deliver(fd, gen, flagKill) {
		return false
	}
	p := d.table.find(fd)
	if p.chunk != nil && p.slot().hold(gen) {
		_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
		p.slot().drop()
	}
	return true
}
