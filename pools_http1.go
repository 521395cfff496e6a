package sluice

import "sync"

// The pools of HTTP/1.1. Engines own a connection until Closed or Sleep; the
// connection owns its exchange while it has a request. A connection that sleeps takes
// its exchange into the pool.
var (
	http1ConnPool     = sync.Pool{New: func() any { return new(http1Conn) }}
	http1ExchangePool = sync.Pool{New: func() any { return newHTTP1Exchange() }}
)

func acquireHTTP1Conn() *http1Conn { return http1ConnPool.Get().(*http1Conn) }

// releaseHTTP1Conn returns c to the pool after its last call.
func releaseHTTP1Conn(c *http1Conn) {
	*c = http1Conn{x: c.x}
	http1ConnPool.Put(c)
}
