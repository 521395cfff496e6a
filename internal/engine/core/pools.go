//go:build linux && (amd64 || arm64)

package core

import "sync"

// connPool keeps conns that no connection has.
type connPool struct{ pool sync.Pool }

func (p *connPool) get() *conn {
	if c, ok := p.pool.Get().(*conn); ok {
		return c
	}
	return &conn{}
}

func (p *connPool) put(c *conn) { p.pool.Put(c) }
