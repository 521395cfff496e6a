//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// castsInARow is how many connections Cast sends to before it yields to other
// goroutines.
const castsInARow = 256

// Target implements engine.Conn.
func (c *conn) Target() engine.Target {
	return engine.Target{Index: int32(c.fd), Generation: c.gen}
}

// Cast implements engine.Engine. It claims each connection as a worker does, and
// releases it when the frame is sent.
func (d *driver) Cast(targets []engine.Target, frame []byte, missed func(i int)) {
	for i, t := range targets {
		if t.Index < 0 || !d.castTo(int(t.Index), t.Generation, frame) {
			missed(i)
		}
		if (i+1)%castsInARow == 0 {
			runtime.Gosched()
		}
	}
}

// castTo sends frame to a connection, if it is waiting between requests. It returns
// false if it has sent nothing.
func (d *driver) castTo(fd int, gen uint32, frame []byte) (isSent bool) {
	p := d.table.find(fd)
	if p.chunk == nil || !p.slot().claimFor(gen, flagPartial|flagTLS|flagGone) {
		return false
	}
	n, _ := d.source.Send(fd, frame, false) // after an error there is an event
	if n > 0 && n < len(frame) {
		d.conn(p, fd).sendLater(frame[n:])
		d.loopOf(p.slot()).queue.push(int32(fd))
		return true
	}
	s := p.slot()
	if !d.letGo(fd, s, s.word.Load()&flagReceives, gen, s.expiry.Load()) {
		d.loopOf(s).queue.push(int32(fd)) // a worker handles what has come
	}
	return n == len(frame)
}

// conn returns the conn of the claimed connection at p.
func (d *driver) conn(p place, fd int) *conn {
	c := p.conn().Load()
	if c == nil {
		c = d.conns.get()
		c.bind(d, p, fd)
		c.show()
	}
	return c
}

// sendLater makes rest the output of a connection that waits for room. A worker
// serves it next.
func (c *conn) sendLater(rest []byte) {
	c.pendingOut = buf.Get(len(rest))
	c.pendingOut.B = append(c.pendingOut.B, rest...)
	c.Out = c.pendingOut.B
	c.loop.held.Add(1)
	c.block(false)
}

// neverBlocks reports whether the protocol of a claimed connection NeverBlocks.
func (d *driver) neverBlocks(fd int32) bool {
	return d.table.slot(int(fd)).has(flagQuick)
}
