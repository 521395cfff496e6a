package netconn

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// filePool keeps the memory of files that are being sent.
type filePool struct{ pool sync.Pool }

func (p *filePool) get() *engine.File {
	if f, ok := p.pool.Get().(*engine.File); ok {
		return f
	}
	return &engine.File{}
}

func (p *filePool) put(f *engine.File) { p.pool.Put(f) }

// workerPool keeps workers that have served one connection.
type workerPool struct{ pool sync.Pool }

// get returns a worker of d without a connection.
func (p *workerPool) get(d *driver) *worker {
	w, ok := p.pool.Get().(*worker)
	if !ok {
		return newWorker(d)
	}
	w.result, w.ended = nil, false
	return w
}

// put takes back a worker whose connection was closed.
func (p *workerPool) put(w *worker) {
	w.acceptor = nil
	p.pool.Put(w)
}
