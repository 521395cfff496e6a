// Package netconn is the engine that gives every connection a goroutine of its own,
// which calls Read and Write on the net.Conn. It serves any net.Conn on any system.
// Sockets on Linux usually go to the event engine.
//
// Several goroutines accept, and each serves what it has accepted (accept.go): it opens
// the connection (lifecycle.go), reads and waits (pump.go), and lets package drive call
// the protocol.
//
// # State
//
// The connection's goroutine owns its conn. Others may use only the atomic fields:
//
//   - conn.state says whether the goroutine waits for input, and who has claimed the
//     connection meanwhile. Others change it by compare-and-swap, and only while
//     flagWaits is set; then they interrupt the wait. The goroutine stores it when it
//     begins to wait (park), and takes it back by a swap (wake). So each claim is seen
//     by exactly one wake.
//   - conn.killed and prompter.wanted are set before the wait is interrupted, and
//     looked at after flagWaits is set. So either the goroutine sees them, or the other
//     one sees that it waits.
//
// A registered conn has an owner: another connection gets its memory only after it has
// left the registry. Whoever holds the registry's lock may therefore look at every conn
// in it.
//
// conn.phase says which calls a connection is still owed, so that each is made once,
// even if one of them panics or ends the goroutine (conclude).
//
// # Interruptions
//
// A wait in Read can be ended only by a deadline in the past. Several parts set
// deadlines on one net.Conn: time-outs, prompts, Shutdown, DetachIdle, the handler, and,
// unless conn.isOurs, the owner of the net.Conn. A read that has timed out looks for the
// reason in conn.state, the prompter and the clock (stopped), clears the deadline, and
// waits again. Only a time-out without any reason of ours is told to the protocol as one.
package netconn

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	firstOutputSize    = 4 << 10  // an output buffer before it grows
	keptOutputSize     = 80 << 10 // larger output buffers are dropped; 64 KiB and their head are kept
	lingerDiscardLimit = 8 << 20  // input discarded by a lingering close
)

// driver implements engine.Engine.
type driver struct {
	options  engine.Options
	registry registry
	conns    connPool
	tasks    taskPool

	handshakes engine.Handshakes

	life    engine.Life
	emptied chan struct{}
	drained chan struct{} // closed when Shutdown has nothing more to do

	ctx    context.Context // ends TLS handshakes at Shutdown
	cancel context.CancelFunc

	mu       sync.Mutex
	servings map[*serving]struct{}

	handover handover

	ended prompter     // of connections that have ended
	held  atomic.Int64 // buffers
}

var _ engine.Engine = (*driver)(nil)

// New returns an engine that is ready to Serve. It holds no goroutine and no
// descriptor until it gets connections. Shutdown releases what it has taken.
func New(options engine.Options) engine.Engine {
	d := &driver{
		options:  options.WithDefaults(),
		emptied:  make(chan struct{}, 1),
		drained:  make(chan struct{}),
		servings: make(map[*serving]struct{}),
	}
	d.tasks.driver, d.tasks.wake = d, make(chan struct{}, maxWaiting)
	d.handshakes.Limit = d.options.MaxHandshakes
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Name implements engine.Engine.
func (d *driver) Name() string { return "perconn" }

// Nudge implements engine.Engine.
func (d *driver) Nudge() {
	var all []engine.Prompter
	d.registry.each(func(c *conn) bool {
		all = append(all, c.Prompter())
		return true
	})
	for _, p := range all {
		p.Prompt()
	}
}

// Prompt implements engine.Engine. This engine has no Targets.
func (d *driver) Prompt(engine.Target) {}

// ReadOn implements engine.Engine; there are no Targets.
func (d *driver) ReadOn(engine.Target) {}

// Cast implements engine.Engine. It misses every target: a connection's goroutine waits
// in Read, and no other goroutine can take over for it.
func (d *driver) Cast(targets []engine.Target, _ []byte, missed func(i int)) {
	for i := range targets {
		missed(i)
	}
}

// CloseOnNextResponse implements engine.Engine.
func (d *driver) CloseOnNextResponse() { d.life.Reach(engine.StageClosing) }

// Life implements engine.Engine.
func (d *driver) Life() *engine.Life { return &d.life }

// Range implements engine.Engine. It holds a lock during f: f must not block, and must
// not call the engine.
func (d *driver) Range(f func(engine.Conn) bool) {
	d.registry.each(func(c *conn) bool { return f(c) })
}

// Stats implements engine.Engine. It visits every connection.
func (d *driver) Stats() engine.Stats {
	loop := d.count()
	stats := engine.Stats{Open: loop.Connections, Active: loop.Active}
	stats.Handshakes, stats.HandshakesDropped = d.handshakes.Count()
	return stats
}

// Loops implements engine.Engine. There is one part, whose workers are the goroutines of
// the connections. It visits every connection.
func (d *driver) Loops() []engine.LoopStats { return []engine.LoopStats{d.count()} }

func (d *driver) count() engine.LoopStats {
	loop := engine.LoopStats{Buffers: int(d.held.Load()), Active: d.tasks.count()}
	d.registry.each(func(c *conn) bool {
		state := c.state.Load()
		loop.Connections++
		loop.Workers++
		if state&flagWaits == 0 || state&flagPartial != 0 {
			loop.Active++
		}
		if state&flagWaits != 0 {
			loop.IdleWorkers++
		}
		return true
	})
	return loop
}
