//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"sync"
	"sync/atomic"
)

// Probe implements engine.Prober.
func (d *driver) Probe(ctx context.Context) error {
	for _, l := range d.loops {
		answered := l.probes.ask()
		if answered == nil {
			continue
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// probes makes a waiting loop run a pass, and tells when that has ended.
type probes struct {
	asked  atomic.Bool // next is not nil; spares passes the lock
	mu     sync.Mutex
	poller Poller        // the loop's; nil: it does not run
	next   chan struct{} // closed at the end of the loop's next pass; nil: no probe waits
}

// begin says that the loop runs.
func (p *probes) begin(poller Poller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poller = poller
}

// ask returns a channel that is closed at the end of the next pass that begins;
// nil if the loop does not run.
func (p *probes) ask() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.poller == nil {
		return nil
	}
	if p.next == nil {
		p.next = make(chan struct{})
		p.asked.Store(true)
	}
	if p.poller.Wake() != nil {
		return nil // the loop is ending
	}
	return p.next
}

// take returns what the pass that begins must close at its end; nil for nothing.
// The loop calls it.
func (p *probes) take() chan struct{} {
	if !p.asked.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.next
	p.next = nil
	p.asked.Store(false)
	return asked
}

// end answers all probes. The loop calls it when it ends.
func (p *probes) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poller = nil
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}
