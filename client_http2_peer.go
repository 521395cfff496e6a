package sluice

import (
	"sync/atomic"

	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/client/pool"
)

// http2Peer is a connection of HTTP/2 of a HostClient.
type http2Peer struct {
	conn      *http2client.Conn
	cc        *clientConn // what was dialed
	c         *HostClient
	member    *http2Member // of which it is the Conn
	wasUsed   atomic.Bool
	isSettled atomic.Bool // the server has sent SETTINGS
}

var _ http2client.Watcher = (*http2Peer)(nil)

// newHTTP2Peer returns a connection that was opened, for the pool.
func (c *HostClient) newHTTP2Peer(cc *clientConn) *http2Member {
	p := &http2Peer{cc: cc, c: c}
	p.member = pool.NewMember(p, p.clamp(assumedStreams))
	p.conn = http2client.NewConn(cc.wire.Net, c.prepared().http2, p)
	return p.member
}

// clamp returns how many of limit streams are used.
func (p *http2Peer) clamp(limit int) int {
	if most := p.c.http2.maxStreams; most > 0 {
		return min(limit, most)
	}
	return limit
}

// LimitChanged implements http2client.Watcher.
func (p *http2Peer) LimitChanged(limit int) {
	p.isSettled.Store(true)
	p.c.http2.SetLimit(p.c.http2Settings(), p.member, p.clamp(limit))
}

// Ended implements http2client.Watcher.
func (p *http2Peer) Ended(error) {
	p.c.http2.Drain(p.c.http2Settings(), p.member)
}

func (p *http2Peer) look() { p.conn.Look() }

func (p *http2Peer) close() { _ = p.conn.Close() } // the client cannot do anything about the error
