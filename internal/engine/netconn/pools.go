package netconn

import "sync"

// connPool keeps the memory of connections that have ended. A conn in it belongs to
// nobody: it has left the registry, and its goroutine has made its last call.
type connPool struct{ pool sync.Pool }

func (p *connPool) get() *conn {
	if c, ok := p.pool.Get().(*conn); ok {
		return c
	}
	return &conn{}
}

func (p *connPool) put(c *conn) {
	*c = conn{buffers: c.buffers}
	p.pool.Put(c)
}
