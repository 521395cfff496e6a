package tcp

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Sleep lets the engine drop s while the connection is idle; see engine.Sleeper. A
// session with state stays in sleepers until the connection wakes. Any other
// session returns to the pool.
func (s *session) Sleep() (engine.Memo, bool) {
	s.conn = nil
	a := s.acceptor
	if !s.remembers() {
		releaseSession(s)
		return a.memo(0), true
	}
	if s.id == 0 {
		s.id = a.server.sleepers.add(s)
	}
	return a.memo(s.id), true
}

// memo returns what the engine keeps of a session with an id.
func (a *acceptor) memo(id uint64) engine.Memo {
	if a.upgraded != nil {
		return a.upgraded.Memo(id, 0, 0)
	}
	return engine.Memo{ID: id}
}

// remembers reports whether the session has state that must be kept.
func (s *session) remembers() bool {
	return s.state != nil || s.sender != nil || s.ownTimeouts || s.phase != phaseServing ||
		s.id != 0 || s.acceptor.cfg.onClose != nil
}

// Wake undoes Sleep; see engine.Waker.
func (a *acceptor) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	if m.ID == 0 {
		return a.newSession(conn)
	}
	s := a.server.sleepers.get(m.ID)
	s.conn = conn
	return s
}

// sleepers maps numbers to sessions, because a Memo holds no pointers. A session
// stays until its connection ends. The zero value is ready.
type sleepers struct {
	last   atomic.Uint64
	shards [16]struct {
		mu       sync.Mutex
		sessions map[uint64]*session
		_        [48]byte // a cache line to itself
	}
}

// add stores s and returns its number, which is never 0.
func (l *sleepers) add(s *session) (id uint64) {
	id = l.last.Add(1)
	shard := &l.shards[id%uint64(len(l.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.sessions == nil {
		shard.sessions = make(map[uint64]*session)
	}
	shard.sessions[id] = s
	return id
}

func (l *sleepers) get(id uint64) *session {
	shard := &l.shards[id%uint64(len(l.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.sessions[id]
}

func (l *sleepers) remove(id uint64) {
	shard := &l.shards[id%uint64(len(l.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	delete(shard.sessions, id)
}
