package sluice

import "github.com/sluicehttp/sluice/internal/engine"

var (
	_ engine.Sleeper = (*serverConn)(nil)
	_ engine.Waker   = (*acceptor)(nil)
)

// memoTLS is the bit of Memo.Served that stores isTLS; the other bits store the
// number of requests.
const memoTLS = 1

// Sleep releases c while its connection idles; see engine.Sleeper. Some engines
// call it for every request.
func (c *serverConn) Sleep() (engine.Memo, bool) {
	m := engine.Memo{ID: c.id, Served: c.served << 1, Opened: c.opened}
	if c.isTLS {
		m.Served |= memoTLS
	}
	releaseServerConn(c)
	return m, true
}

// Wake restores what Sleep returned, in another serverConn; see engine.Waker.
func (a *acceptor) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	c := acquireServerConn()
	c.conn, c.server, c.cfg = conn, a.server, a.cfg
	c.id, c.served, c.opened = m.ID, m.Served>>1, m.Opened
	c.isTLS = m.Served&memoTLS != 0
	return c
}
