package tcp

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// sessionPool holds sessions without a connection.
var sessionPool = sync.Pool{New: func() any { return new(session) }}

// newSession returns the session of a connection that is open.
func (a *acceptor) newSession(conn engine.Conn) *session {
	s := sessionPool.Get().(*session)
	s.owned.Acquired()
	s.conn, s.acceptor = conn, a
	s.isOpened = true
	s.idleTimeout, s.readTimeout = a.cfg.idleTimeout, a.cfg.readTimeout
	return s
}

// releaseSession returns s to the pool, after its last call.
func releaseSession(s *session) {
	s.owned.Released("tcp.Conn")
	*s = session{owned: s.owned}
	sessionPool.Put(s)
}

// broadcastPool holds what running broadcasts need; a call of Broadcast owns one.
var broadcastPool = sync.Pool{New: func() any {
	b := new(broadcast)
	b.missed = b.miss
	return b
}}

// releaseBroadcast returns b to the pool.
func releaseBroadcast(b *broadcast) {
	clear(b.senders[:])
	broadcastPool.Put(b)
}
