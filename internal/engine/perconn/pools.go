package perconn

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
