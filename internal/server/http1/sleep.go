package http1

import (
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
)

var (
	_ engine.Sleeper  = (*Conn)(nil)
	_ engine.Switcher = (*Conn)(nil)
	_ engine.Rewinder = (*Conn)(nil)
	_ engine.Cooler   = (*Conn)(nil)
	_ engine.Reusable = (*Conn)(nil)
)

// The lowest MemoShift bits of Memo.Served are MemoTLS, and those of other protocols, which
// are 0 for a Conn. The others are the number of its requests.
const (
	MemoTLS   = 1
	MemoShift = 3
)

// Sleep releases c while its connection idles; see engine.Sleeper. Some engines
// call it for every request, so c keeps its exchange in the pool: that saves the way to
// another pool, and preparing the exchange for the server again.
func (c *Conn) Sleep() (engine.Memo, bool) {
	m := c.Retire()
	releaseConn(c)
	return m, true
}

// Release implements engine.Reusable.
func (c *Conn) Release() { releaseConn(c) }

// Retire returns what Sleep does; see engine.Reusable.
func (c *Conn) Retire() engine.Memo {
	m := engine.Memo{ID: c.facts.ID, Served: c.facts.Served << MemoShift, Opened: c.facts.Opened}
	if c.facts.IsTLS {
		m.Served |= MemoTLS
	}
	c.conn, c.ownedConn = nil, nil
	return m
}

// Reuse restores what Retire of this or of another Conn has returned; see engine.Reusable.
func (c *Conn) Reuse(conn engine.Conn, m engine.Memo, arrived int64) bool {
	if m.Served&(1<<MemoShift-1)&^MemoTLS != 0 {
		return false
	}
	c.conn, c.facts, c.arrived = conn, factsOf(m), arrived
	return true
}

// factsOf returns the facts that are in m.
func factsOf(m engine.Memo) server.Facts {
	return server.Facts{ID: m.ID, Opened: m.Opened, Served: m.Served >> MemoShift, IsTLS: m.Served&MemoTLS != 0}
}

// Wake restores what Sleep returned; see engine.Waker.
func Wake(conn engine.Conn, h Host, cfg *Config, m engine.Memo) *Conn {
	return Open(conn, h, cfg, factsOf(m))
}
