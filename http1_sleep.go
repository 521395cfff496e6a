package sluice

import "github.com/sluicehttp/sluice/internal/engine"

var (
	_ engine.Sleeper = (*http1Conn)(nil)
	_ engine.Waker   = (*acceptor)(nil)
)

// memoTLS is the bit of Memo.Served that stores isTLS; the other bits store the
// number of requests.
const memoTLS = 1

// Sleep releases c while its connection idles; see engine.Sleeper. Some engines
// call it for every request.
func (c *http1Conn) Sleep() (engine.Memo, bool) {
	m := engine.Memo{ID: c.facts.id, Served: c.served << 1, Opened: c.facts.opened}
	if c.facts.isTLS {
		m.Served |= memoTLS
	}
	releaseHTTP1Conn(c)
	return m, true
}

// Wake restores what Sleep returned, in another http1Conn; see engine.Waker.
func (a *acceptor) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	c := a.openHTTP1(conn)
	c.facts = connFacts{id: m.ID, opened: m.Opened, isTLS: m.Served&memoTLS != 0}
	c.served = m.Served >> 1
	return c
}
