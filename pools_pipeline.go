package sluice

import "sync"

// pipelineWorkPool is a pool of requests in the queues of a PipelineClient. Each
// has its own: they have channels, which must not leave the bubbles of
// testing/synctest.
type pipelineWorkPool struct{ pool sync.Pool } // of *pipelineWork

// acquire returns a work that is the caller's.
func (p *pipelineWorkPool) acquire() *pipelineWork {
	if w, ok := p.pool.Get().(*pipelineWork); ok {
		return w
	}
	return &pipelineWork{done: make(chan struct{}, 1)}
}

// release gives w back. No list has it, and nobody waits for it.
func (p *pipelineWorkPool) release(w *pipelineWork) {
	if w.into == &w.resp {
		w.resp.recycle()
	}
	w.into = nil
	out := w.out[:0]
	if cap(out) > maxPooledBytes {
		out = nil
	}
	w.out, w.err, w.at, w.attempts = out, nil, 0, 0
	p.pool.Put(w)
}
