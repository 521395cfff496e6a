package http2

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
)

// connPool has Conns without a connection. One that sleeps or has ended returns its Conn.
var connPool = sync.Pool{New: func() any {
	c := &Conn{}
	c.room.L = &c.mu
	return c
}}

// exchangePool has Exchanges without a request. A stream owns its Exchange until end.
var exchangePool = sync.Pool{New: func() any { return newExchange() }}

func acquireConn() *Conn { return connPool.Get().(*Conn) }

// connMemory is about what a Conn has, with what release keeps of a usual one.
const connMemory = 4 << 10

// release returns c to the pool. The engine has made its last call, and there is no stream, so
// nothing uses the connState any more: a Task removes its stream with c.mu locked, and then only
// unlocks. That may still be to come, and Tunnels and streamConns that are over may lock c.mu at
// any time, or prompt. So mu, room and prompted are left alone; those calls find out from the Tunnel
// or the streamConn that it is over.
func (c *Conn) release() {
	c.decoder.Reset()
	decoder, streams, out := c.decoder, c.streams, c.out[:0]
	if cap(out) > keptOut {
		out = nil
	}
	c.connState = connState{}
	c.limitsTasks.Store(false)
	c.decoder, c.streams, c.out = decoder, streams, out
	connPool.Put(c)
	buf.LetGo(connMemory)
}
