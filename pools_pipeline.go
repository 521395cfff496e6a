package sluice

import "sync"

// pipelineWorkPool is a pool of requests for the queues of a PipelineClient. Each
// PipelineClient has its own pool: the requests have channels, which must not
// leave a bubble of testing/synctest.
type pipelineWorkPool struct{ pool sync.Pool } // of *pipelineWork

// acquire returns a work, which the caller owns.
func (p *pipelineWorkPool) acquire() *pipelineWork {
	if w, ok := p.pool.Get().(*pipelineWork); ok {
		return w
	}
	return &pipelineWork{done: make(chan struct{}, 1)}
}

// release returns w to the pool. w must not be in any list, and no goroutine may
// wait for it.
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
