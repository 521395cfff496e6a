// Package netconn is the engine that gives every connection a goroutine of its
// own, which calls Read and Write on the net.Conn (pump.go). It serves any
// net.Conn on any system. Sockets on Linux usually go to the event engine.
//
// A goroutine accepts (accept.go), serves what it has accepted (worker.go,
// lifecycle.go, drive.go), and accepts again.
package netconn

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	firstOutputSize    = 4 << 10  // an output buffer before it grows
	keptOutputSize     = 64 << 10 // an output buffer that grew beyond is dropped
	lingerDiscardLimit = 8 << 20  // input discarded by a lingering close
)

// driver implements engine.Engine.
type driver struct {
	options  engine.Options
	registry registry
	files    filePool
	workers  workerPool
	tasks    taskPool

	closeRequested atomic.Bool // CloseOnNextResponse or Shutdown was called
	closing        atomic.Bool // Shutdown was called
	killing        atomic.Bool // Shutdown has given up waiting
	emptied        chan struct{}
	drained        chan struct{} // closed when Shutdown's work is done

	ctx    context.Context // ends TLS handshakes at Shutdown
	cancel context.CancelFunc

	mu       sync.Mutex
	servings map[*serving]struct{}

	handover handover

	silent prompter     // of connections that have ended
	lent   atomic.Int64 // buffers
}

var _ engine.Engine = (*driver)(nil)

// New returns an engine that is ready to Serve. It holds no goroutine and no
// descriptor until it is given connections; Shutdown releases what it took
// meanwhile.
func New(options engine.Options) engine.Engine {
	options = options.WithDefaults()
	d := &driver{
		options:  options,
		emptied:  make(chan struct{}, 1),
		drained:  make(chan struct{}),
		servings: make(map[*serving]struct{}),
	}
	d.tasks.driver = d
	d.ctx, d.cancel = context.WithCancel(context.Background())
	shards := shardCount()
	d.registry.shards = make([]registryShard, shards)
	return d
}

// shardCount is the number of parts that shared lists are cut into, a power of
// two near the number of processors.
func shardCount() int {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < 64 {
		n *= 2
	}
	return n
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

// Cast implements engine.Engine. A connection's goroutine waits in Read, and has no
// state that another goroutine could take over.
func (d *driver) Cast(targets []engine.Target, _ []byte, missed func(engine.Target)) {
	for _, t := range targets {
		missed(t)
	}
}

// CloseOnNextResponse implements engine.Engine.
func (d *driver) CloseOnNextResponse() { d.closeRequested.Store(true) }

// CloseRequested implements engine.Engine.
func (d *driver) CloseRequested() bool { return d.closeRequested.Load() }

// Range implements engine.Engine. It holds a lock during f: f must not block,
// and must not call the engine.
func (d *driver) Range(f func(engine.Conn) bool) {
	d.registry.each(func(c *conn) bool { return f(c) })
}

// Stats implements engine.Engine. It visits every connection.
func (d *driver) Stats() engine.Stats {
	loop := d.count()
	return engine.Stats{Open: loop.Connections, Active: loop.Active}
}

// Loops implements engine.Engine. Everything is one part here. Its workers are
// the goroutines of the connections, which are idle while these wait. It visits
// every connection.
func (d *driver) Loops() []engine.LoopStats { return []engine.LoopStats{d.count()} }

// count visits every connection.
func (d *driver) count() engine.LoopStats {
	loop := engine.LoopStats{Buffers: int(d.lent.Load()), Active: d.tasks.count()}
	d.registry.each(func(c *conn) bool {
		state := c.state.Load()
		loop.Connections++
		if state == stateBusy || state == statePartial || state == stateHead {
			loop.Active++
		}
		loop.Workers++
		if state != stateBusy {
			loop.IdleWorkers++
		}
		return true
	})
	return loop
}
