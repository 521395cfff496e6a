package websocket

import (
	"bufio"
	"io"
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// sessionPool holds sessions without a connection. The engine owns a session from Open or
// Wake until Closed, Sleep or Release.
var sessionPool = sync.Pool{New: func() any { return new(session) }}

func acquireSession(h *host, c *Conn, conn engine.Conn) *session {
	s := sessionPool.Get().(*session)
	s.owned.Acquired()
	s.host = h
	s.reader.Limit, s.reader.MaxFragments, s.reader.FromServer = h.readLimit, h.maxFragments, h.isClient
	s.serve(c, conn)
	return s
}

// serve gives s a connection.
func (s *session) serve(c *Conn, conn engine.Conn) {
	s.conn, s.engine, s.reader.Deflates = c, conn, c.in != 0
}

// releaseSession returns s to the pool, after its last call.
func releaseSession(s *session) {
	s.owned.Released("websocket session")
	*s = session{owned: s.owned, waking: s.waking, spare: s.spare}
	sessionPool.Put(s)
}

// directPool holds what a call of sendNowLocked or sendMeanwhileLocked needs; it owns one.
var directPool = sync.Pool{New: func() any { return new(direct) }}

// connStatePool holds connStates without a connection. A Conn owns its connState while it is awake or
// has something to keep; a session has a spare one.
var connStatePool = sync.Pool{New: func() any { return new(connState) }}

func releaseConnState(m *connState) {
	*m = connState{}
	connStatePool.Put(m)
}

// maxPooledItems is the capacity above which the items of an outbox are not pooled.
const maxPooledItems = 1024

// outboxPool holds empty outboxes. A Conn owns its outbox while something waits in it.
var outboxPool = sync.Pool{New: func() any { return new(outbox) }}

// broadcastPool holds what running broadcasts need; a call of Group.Broadcast owns one.
var broadcastPool = sync.Pool{New: func() any {
	b := new(broadcast)
	b.onMiss = b.miss
	return b
}}

func acquireBroadcast(p *Prepared) *broadcast {
	b := broadcastPool.Get().(*broadcast)
	b.prepared, b.sent = p, 0
	return b
}

func releaseBroadcast(b *broadcast) {
	b.prepared = nil
	broadcastPool.Put(b)
}

// maxResponseHead is the largest head of an answer to a handshake.
const maxResponseHead = 64 << 10

// answerPool holds readers of answers to handshakes, without a connection; a call of Dial owns
// one. Without it, a buffer of 64 KiB for each call keeps the garbage collector of a program
// with many connections busy.
var answerPool = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxResponseHead) }}

func acquireAnswerReader(conn io.Reader) *bufio.Reader {
	r := answerPool.Get().(*bufio.Reader)
	r.Reset(conn)
	return r
}

func releaseAnswerReader(r *bufio.Reader) {
	r.Reset(nil)
	answerPool.Put(r)
}
