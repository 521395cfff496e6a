package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
)

// A connection without streams first waits as it is: the next request often comes soon.
// After sleepDelay it may sleep: Sleep packs it then.

// sleepDelay is how long a connection has no stream before it may sleep.
const sleepDelay = 2 * time.Second

// Pause implements engine.Protocol. The connection is idle if there is no stream, neither
// side waits for the other, and no GOAWAY was sent.
func (c *Conn) Pause() (isIdle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isIdle()
}

func (c *Conn) isIdle() bool {
	return c.phase == phaseOpen && c.streams.count() == 0 && len(c.out) == 0 && c.isPrefaced &&
		!c.own.Waits() && c.parser.BetweenFrames() && c.window.Held() == 0
}

// becomeIdle is called when there is no stream.
func (c *Conn) becomeIdle(now int64) {
	c.sleepDue = now + int64(sleepDelay)
	if c.cfg.IdleTimeout > 0 {
		c.idleDue = now + int64(c.cfg.IdleTimeout)
	}
}

// becomeBusy is called when a stream begins.
func (c *Conn) becomeBusy() {
	c.idleDue, c.sleepDue, c.maySleep = 0, 0, false
}

// prepareSleep releases what a connection that may sleep does not need.
func (c *Conn) prepareSleep() {
	c.sleepDue, c.maySleep = 0, true
	c.window.Shrink(&c.growth)
	c.decoder.Forget()
	c.out = nil
}

// Sleep packs c into a record, and releases c, which must not be used any more. ok is
// false if c may not sleep yet. Call it after a Pause that returned true.
func (c *Conn) Sleep() (r Record, ok bool) {
	if !c.maySleep { // there is no Task that could change that
		return 0, false
	}
	c.mu.Lock()
	packed := buf.Get(recordSize)
	packed.B = c.appendPacked(packed.B, formSleep)
	records := c.cfg.Records
	c.mu.Unlock()
	r = records.put(packed.B)
	packed.Release()
	c.release()
	return r, true
}

// recordSize is the size of most records, at most.
const recordSize = 1 << 10

// Wake restores the Conn that Sleep has packed, and frees the record. cfg is the same, and f
// without Served.
func Wake(conn engine.Conn, host Host, cfg *Config, f server.Facts, r Record) *Conn {
	c := newConn(conn, host, cfg, f)
	packed := buf.Get(recordSize)
	packed.B = cfg.Records.take(r, packed.B)
	if c.unpack(packed.B, formSleep) {
		c.maySleep, c.armed = true, c.idleDue
		c.facts.Served = c.opened
	} else {
		c.phase, c.failure = phaseFailed, errRecord
	}
	packed.Release()
	return c
}
