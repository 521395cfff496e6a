package sluice

import "sync"

// pipelineWorkPool is a pool of requests for the queues of a PipelineClient. Each
// PipelineClient has its own pool: the requests have channels, which must not
// leave a bubble of testing/synctest.
type pipelineWorkPool struct{ pool sync.Pool } // of *pipelineWork

// acquire returns a work of c, which the caller owns.
func (p *pipelineWorkPool) acquire(c *PipelineClient) *pipelineWork {
	if w, ok := p.pool.Get().(*pipelineWork); ok {
		return w
	}
	w := &pipelineWork{c: c}
	w.Init(w)
	return w
}

// release returns w to the pool. w must not be in any list, and no goroutine may
// wait for it.
func (p *pipelineWorkPool) release(w *pipelineWork) {
	if w.into == &w.resp {
		w.resp.recycle()
	}
	w.into = nil
	out := w.Out[:0]
	if cap(out) > maxPooledBytes {
		out = nil
	}
	w.Out, w.Err = out, nil
	p.pool.Put(w)
}
