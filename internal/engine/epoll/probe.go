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

// probes has a loop turn that waits: a deadline that has passed ends its
// RawConn.Read, which it enters again. That takes no descriptor and costs nothing
// as long as nobody asks.
type probes struct {
	mu   sync.Mutex
	file *os.File      // the loop's; nil: it does not run
	next chan struct{} // closed when the loop has turned; nil: nobody has asked
}

// begin says that the loop runs.
func (p *probes) begin(file *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file = file
}

// ask returns what is closed when the loop has turned once more, nil if it does
// not run.
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

// close answers everybody: the loop has ended.
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
