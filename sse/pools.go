package sse

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// castPool holds what running casts need; a call of Hub.cast owns one.
var castPool = sync.Pool{New: func() any {
	c := new(cast)
	c.onMiss = c.miss
	return c
}}

// sessionPool holds sessions without a connection. The engine owns a session from Open or
// Wake until Closed or Sleep.
var sessionPool = sync.Pool{New: func() any { return new(session) }}

func acquireCast() *cast { return castPool.Get().(*cast) }

// releaseCast gives c back after its last batch.
func releaseCast(c *cast) {
	c.topic, c.chunk = nil, nil
	castPool.Put(c)
}

func acquireSession(h *host, s *stream, conn engine.Conn) *session {
	x := sessionPool.Get().(*session)
	x.owned.Acquired()
	x.host, x.stream, x.conn = h, s, conn
	return x
}

// releaseSession gives x back after its last call.
func releaseSession(x *session) {
	x.owned.Released("sse session")
	*x = session{owned: x.owned}
	sessionPool.Put(x)
}
