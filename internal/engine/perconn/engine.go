// Package perconn is the engine that gives every connection a goroutine of its
// own. It serves any net.Conn on any system, and is the one that TLS,
// streaming and hijacked connections end up with.
//
// There are two ways through it:
//
//   - The plain path (conn_plain.go) calls Read and Write on the net.Conn.
//   - The raw path (raw_linux.go) takes over when the connection is exactly a
//     *net.TCPConn or a *net.UnixConn on Linux. The goroutine then lives inside
//     one call of syscall.RawConn.Read, on a stack of 2 KB, and everything deep
//     is done by a coroutine that it borrows for as long as there is input
//     (coroutine.go, docs/adr/0002-coroutine-stacks.md).
//
// Both share the accept loop (accept.go), the life cycle (worker.go,
// lifecycle.go), the drive loop (drive.go) and the rest.
package perconn

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
	options   engine.Options
	registry  registry
	stacks    stacks
	readiness readiness
	files     filePool
	workers   workerPool

	closeRequested atomic.Bool // CloseOnNextResponse or Shutdown was called
	closing        atomic.Bool // Shutdown was called
	killing        atomic.Bool // Shutdown has given up waiting
	checking       atomic.Bool // checkForFINs runs
	emptied        chan struct{}
	drained        chan struct{} // closed when Shutdown's work is done

	ctx    context.Context // ends TLS handshakes at Shutdown
	cancel context.CancelFunc

	mu       sync.Mutex
	servings map[*serving]struct{}

	handover handover

	silent prompter     // of connections that have ended
	lent   atomic.Int64 // buffers of the plain path
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
	d.ctx, d.cancel = context.WithCancel(context.Background())
	shards := shardCount()
	d.registry.shards = make([]registryShard, shards)
	d.stacks.init(shards, options.MaxIdleWorkerTime)
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
// coroutines, of which those that nobody has borrowed are idle, and the
// goroutines of connections on the plain path, which are idle while these wait.
// It visits every connection.
func (d *driver) Loops() []engine.LoopStats {
	loop := d.count()
	made, free := d.stacks.count()
	loop.Workers += made
	loop.IdleWorkers += free
	loop.Buffers += int(d.lent.Load())
	return []engine.LoopStats{loop}
}

// count counts connections, and what can be told by them: the workers of the
// plain path and the buffers of the raw one.
func (d *driver) count() engine.LoopStats {
	var loop engine.LoopStats
	d.registry.each(func(c *conn) bool {
		state := c.state.Load()
		loop.Connections++
		if state == stateBusy || state == statePartial || state == stateHead {
			loop.Active++
		}
		if c.raw.enabled() {
			if state == stateBusy {
				loop.Buffers += 2 // its coroutine's
			}
			return true
		}
		loop.Workers++
		if state != stateBusy {
			loop.IdleWorkers++
		}
		return true
	})
	return loop
}
