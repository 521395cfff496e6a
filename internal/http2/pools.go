package http2

import "sync"

// connPool has Conns without a connection. One that sleeps returns its Conn.
var connPool = sync.Pool{New: func() any {
	c := &Conn{}
	c.room.L = &c.mu
	return c
}}

func acquireConn() *Conn { return connPool.Get().(*Conn) }

// release returns c to the pool. Tasks may still be about to unlock c.mu, so that is left
// alone.
func (c *Conn) release() {
	c.decoder.Reset()
	decoder, streams, out := c.decoder, c.streams, c.out[:0]
	c.tenancy = tenancy{}
	c.decoder, c.streams, c.out = decoder, streams, out
	connPool.Put(c)
}
