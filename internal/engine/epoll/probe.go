//go:build linux && (amd64 || arm64)

package epoll

import (
	"context"
	"os"
	"sync"
	"time"
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

// probes makes a waiting loop run a pass: a deadline in the past ends its
// RawConn.Read, which the loop enters again. This needs no descriptor, and costs
// nothing while there are no probes.
type probes struct {
	mu   sync.Mutex
	file *os.File      // the loop's; nil: it does not run
	next chan struct{} // closed after the loop's next pass; nil: no probe waits
}

// begin says that the loop runs.
func (p *probes) begin(file *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file = file
}

// ask returns a channel that is closed after the loop's next pass; nil if the loop
// does not run.
func (p *probes) ask() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil || p.file.SetReadDeadline(time.Unix(1, 0)) != nil {
		return nil // it does not run any more
	}
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next
}

// take lets the loop wait again, and returns what is to be closed after a turn.
// It is called by the loop.
func (p *probes) take() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil {
		_ = p.file.SetReadDeadline(time.Time{})
	}
	asked := p.next
	p.next = nil
	return asked
}

func (p *probes) isAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next != nil
}

// close answers all probes after the loop's end.
func (p *probes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file = nil
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}

// answerProbes is called by the loop at the end of a turn.
func (l *loop) answerProbes() {
	for _, asked := range l.turning {
		if asked != nil { // two askers may share one
			close(asked)
		}
	}
	l.turning = l.turning[:0]
}

// endProbes is called by the loop when it ends.
func (l *loop) endProbes() {
	l.answerProbes()
	l.probes.close()
}
