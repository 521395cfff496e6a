package sluice

import (
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/http2"
)

var (
	_ engine.Sleeper = (*http1Conn)(nil)
	_ engine.Waker   = (*acceptor)(nil)
)

// The lowest bits of Memo.Served. The others store the number of requests, or the record
// of a connection of HTTP/2, or name an upgrade.Host and what it has stored.
const (
	memoTLS      = 1 << iota // connFacts.isTLS
	memoHTTP2                // the protocol
	memoUpgraded             // the protocol is that of an upgrade.Host
	memoShift    = iota
)

// Sleep releases c while its connection idles; see engine.Sleeper. Some engines
// call it for every request, so c keeps its exchange in the pool: that saves the way to
// another pool, and preparing the exchange for the server again.
func (c *http1Conn) Sleep() (engine.Memo, bool) {
	m := engine.Memo{ID: c.facts.id, Served: c.served << memoShift, Opened: c.facts.opened}
	if c.facts.isTLS {
		m.Served |= memoTLS
	}
	releaseHTTP1Conn(c)
	return m, true
}

// Wake restores what Sleep returned; see engine.Waker.
func (a *acceptor) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	if m.Served&memoUpgraded != 0 {
		return a.server.wakeUpgraded(conn, m)
	}
	facts := connFacts{id: m.ID, opened: m.Opened, isTLS: m.Served&memoTLS != 0}
	if m.Served&memoHTTP2 != 0 {
		return a.wakeHTTP2(conn, facts, http2.Record(m.Served>>memoShift))
	}
	c := a.openHTTP1(conn)
	c.facts = facts
	c.served = m.Served >> memoShift
	c.isWoken = true
	return c
}
