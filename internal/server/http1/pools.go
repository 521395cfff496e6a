package http1

import "sync"

// connPool holds connections. Engines own one until Closed, Sleep or Successor. It takes its
// exchange into the pool, if it may.
var connPool = sync.Pool{New: func() any { return new(Conn) }}

// exchangePool holds exchanges with their Requests. A connection owns an exchange until
// release.
var exchangePool = sync.Pool{New: func() any { return new(Exchange) }}

func acquireConn() *Conn { return connPool.Get().(*Conn) }

// releaseConn returns c to the pool after its last call.
func releaseConn(c *Conn) {
	*c = Conn{x: c.x}
	connPool.Put(c)
}
