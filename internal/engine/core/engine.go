//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/invariants"
)

const (
	firstOutputSize    = 4 << 10  // an output buffer before it grows
	keptOutputSize     = 80 << 10 // larger output buffers are dropped; 64 KiB and their head are kept
	lingerDiscardLimit = 8 << 20  // input discarded by a lingering close
)

// driver implements engine.Engine.
type driver struct {
	name     string
	source   Source
	options  engine.Options
	fallback engine.Engine
	table    table
	sweep    deadlineSweep
	cooler   cooler
	tlsFacts compact.Table // of adopted connections
	conns    connPool
	tlsWorks func() bool // testTLS, done once

	servings atomic.Pointer[[]*serving] // by index; replaced, never changed

	life    engine.Life
	emptied chan struct{}
	drained chan struct{} // closed when Shutdown's work is done

	mu         sync.Mutex // guards servings' replacement, and loops
	loops      []*loop
	adopting   map[origin]*serving // of open adopted connections
	parcels    parcels
	handovers  sync.Mutex // one DetachIdle at a time
	detachFrom int        // the descriptor at which the next one begins
	handover   atomic.Pointer[handover]

	_          cacheLine
	turn       atomic.Uint32 // of nextLoop
	handshakes engine.Handshakes
	_          cacheLine
}

// A cacheLine keeps words that are written for each connection away from those that
// each request reads: a write takes the line from all other processors.
type cacheLine [64]byte

var (
	_ engine.Engine  = (*driver)(nil)
	_ engine.Adopter = (*driver)(nil)
	_ engine.Prober  = (*driver)(nil)
)

// New returns an engine of that name that is ready to Serve. fallback serves the connections
// that are not sockets of the system; Shutdown shuts it down, too. Without
// fallback such connections are refused with an error.
//
// The engine holds no goroutine and no descriptor until it is given connections.
func New(name string, source Source, options engine.Options, fallback engine.Engine) (engine.Engine, error) {
	options = options.WithDefaults()
	if fallback == nil {
		return nil, errors.New("sluice: the event engine needs another one for connections that are not sockets")
	}
	if options.Loops <= 0 {
		// One loop serves two processors as well as two do: it only waits and
		// claims, the workers do the rest.
		options.Loops = (runtime.GOMAXPROCS(0) + 1) / 2
	}
	options.Loops = min(options.Loops, maxLoops)
	d := &driver{
		name:     name,
		source:   source,
		options:  options,
		fallback: fallback,
		tlsWorks: sync.OnceValue(testTLS),
		emptied:  make(chan struct{}, 1),
		drained:  make(chan struct{}),
		loops:    make([]*loop, options.Loops),
	}
	d.sweep.driver = d
	d.handshakes.Limit = options.MaxHandshakes
	d.cooler.driver, d.cooler.period = d, coolingPeriod
	if invariants.Enabled {
		d.cooler.period = checkedPeriod
	}
	for i := range d.loops {
		d.loops[i] = newLoop(d, i)
	}
	return d, nil
}

// loopOf returns the loop of the connection of s, which the caller owns.
func (d *driver) loopOf(s *slot) *loop { return d.loops[loopIndex(s.word.Load())] }

// nextLoop returns the loop of the next connection: each in its turn. The numbers of
// descriptors would not do. A proxy opens one for each connection, so that the
// connections have every other number.
func (d *driver) nextLoop() *loop { return d.loops[d.turn.Add(1)%uint32(len(d.loops))] }

// startLoopsLocked makes the loops run, unless they do; mu is held.
func (d *driver) startLoopsLocked() error {
	for _, l := range d.loops {
		if l.poller == nil {
			if err := l.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter gives s an index, and starts the loops. letGo releases the index.
func (d *driver) enter(s *serving) (*serving, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.enterLocked(s)
}

func (d *driver) enterLocked(s *serving) (*serving, error) {
	if d.life.Has(engine.StageShutDown) {
		return nil, engine.ErrShutdown
	}
	if err := d.startLoopsLocked(); err != nil {
		return nil, err
	}
	s.waker, _ = s.acceptor.(engine.Waker)
	s.hooks = engine.HooksOf(s.acceptor)
	s.holds.Store(1)
	s.users = make([]tally, len(d.loops))
	var all []*serving
	if old := d.servings.Load(); old != nil {
		all = append(all, *old...)
	}
	at := 0
	for at < len(all) && all[at] != nil {
		at++
	}
	if at > 1<<16-1 {
		return nil, errors.New("sluice: too many listeners")
	}
	s.index = uint16(at)
	if at == len(all) {
		all = append(all, s)
	}
	all[at] = s
	d.servings.Store(&all)
	return s, nil
}

// letGo ends the use of s by a Serve, or an Adopt.
func (s *serving) letGo() {
	if s.holds.Add(-1) == 0 {
		s.removeUnused()
	}
}

// leave counts out a connection of loop l.
func (s *serving) leave(l *loop) {
	// Either letGo comes later and finds no connections, or holds is 0 here.
	if s.users[l.index].count.Add(-1) == 0 && s.holds.Load() == 0 {
		s.removeUnused()
	}
}

// isUsed reports whether s must stay. While there are no holds, it gets no new connections.
func (s *serving) isUsed() bool {
	if s.holds.Load() > 0 {
		return true
	}
	for i := range s.users {
		if s.users[i].count.Load() > 0 {
			return true
		}
	}
	return false
}

// removeUnused removes s, unless it is used.
func (s *serving) removeUnused() {
	d := s.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.isUsed() {
		return // by connections of other loops, or enterAdopting has found it meanwhile
	}
	if at, ok := s.listener.(origin); ok && d.adopting[at] == s {
		delete(d.adopting, at)
	}
	all := append([]*serving(nil), *d.servings.Load()...)
	if all[s.index] == s {
		all[s.index] = nil
		d.servings.Store(&all)
	}
}

func (d *driver) servingAt(index uint16) *serving { return (*d.servings.Load())[index] }

// closed counts out a connection of loop l.
func (d *driver) closed(l *loop, s *serving) {
	s.leave(l)
	l.countOut()
}

// countOut counts down open, and tells Shutdown when it is 0.
func (l *loop) countOut() {
	if l.open.Add(-1) == 0 {
		l.driver.tellEmptied()
	}
}

// countOpen returns the number of connections. After StageShutDown and the
// servings have ended, it does not grow, but for moments.
func (d *driver) countOpen() (count int64) {
	for _, l := range d.loops {
		count += l.open.Load()
	}
	return count
}

// tellEmptied wakes drain, which checks for remaining connections and Tasks.
func (d *driver) tellEmptied() {
	if !d.life.Has(engine.StageShutDown) {
		return
	}
	select {
	case d.emptied <- struct{}{}:
	default:
	}
}

// deliver hands flags to a connection, if it is still there.
func (d *driver) deliver(fd int, gen uint32, flags uint64) (isOpen bool) {
	p := d.table.find(fd)
	if p.chunk == nil {
		return false
	}
	claimed, woken := p.slot().deliver(gen, flags)
	switch {
	case claimed && flags == flagPrompt:
		d.loopOf(p.slot()).queue.pushAhead(int32(fd))
		return true
	case claimed:
		d.loopOf(p.slot()).queue.push(int32(fd))
		return true
	case woken != 0:
		p.wake(fd, gen, woken)
	}
	return is(p.slot().word.Load(), gen)
}

// queueAll queues claimed connections with their loops.
func (d *driver) queueAll(fds []int32) {
	if len(d.loops) == 1 {
		d.loops[0].queue.push(fds...)
		return
	}
	for _, fd := range fds {
		d.loopOf(d.table.slot(int(fd))).queue.push(fd)
	}
}

// Name implements engine.Engine.
func (d *driver) Name() string { return d.name }

// ServeConn implements engine.Engine. The fallback engine does it: its caller's
// goroutine waits anyway, and the caller may keep c and close it.
func (d *driver) ServeConn(c net.Conn, leftover []byte, a engine.Acceptor) error {
	return d.fallback.ServeConn(c, leftover, a)
}

// CloseOnNextResponse implements engine.Engine.
func (d *driver) CloseOnNextResponse() {
	d.life.Reach(engine.StageClosing)
	d.fallback.CloseOnNextResponse()
}

// Prompt implements engine.Engine.
func (d *driver) Prompt(t engine.Target) {
	if t.Generation != 0 {
		d.deliver(int(t.Index), t.Generation, flagPrompt)
	}
}

// ReadOn implements engine.Engine.
func (d *driver) ReadOn(t engine.Target) {
	if t.Generation != 0 {
		d.deliver(int(t.Index), t.Generation, flagInput)
	}
}

const (
	// nudgePortion is how many connections Nudge queues at a time.
	nudgePortion = 256
	// nudgePause is how long it waits before the next portion.
	nudgePause = time.Millisecond
)

// Nudge implements engine.Engine.
func (d *driver) Nudge() {
	nudged := 0
	d.table.each(func(fd int, p place) {
		word := p.slot().word.Load()
		if word&stateMask == stateClosed || !d.deliver(fd, generation(word), flagPrompt) {
			return
		}
		if nudged++; nudged%nudgePortion == 0 {
			time.Sleep(nudgePause)
		}
	})
	d.fallback.Nudge()
}

// Life implements engine.Engine.
func (d *driver) Life() *engine.Life { return &d.life }

// Range implements engine.Engine. f may use its Conn for addresses and prompters
// only, and must neither retain it nor block.
func (d *driver) Range(f func(engine.Conn) bool) {
	goOn := true
	d.table.each(func(fd int, p place) {
		s := p.slot()
		gen := generation(s.word.Load())
		if !goOn || !s.hold(gen) {
			return
		}
		view := &netConn{driver: d, fd: int32(fd), gen: gen, remote: s.remote(), serving: d.servingAt(s.serving), proxied: p.proxied()}
		s.drop()
		goOn = f(&conn{connState: connState{driver: d, place: p, fd: fd, gen: gen, serving: view.serving, finalView: view}})
	})
	if goOn {
		d.fallback.Range(f)
	}
}

// Stats implements engine.Engine. It visits every connection.
func (d *driver) Stats() engine.Stats {
	stats := d.fallback.Stats()
	stats.Open += int(d.countOpen())
	begun, dropped := d.handshakes.Count()
	stats.Handshakes += begun
	stats.HandshakesDropped += dropped
	for _, l := range d.loops {
		stats.Active += l.queue.countTasks()
		stats.Compact += int(l.compact.Load())
		stats.Cold += int(l.cold.Load())
	}
	d.table.each(func(fd int, p place) {
		if !isIdle(p.slot().word.Load()) {
			stats.Active++
		}
	})
	return stats
}

// Loops implements engine.Engine. The last element is the fallback engine's, if
// that has connections.
func (d *driver) Loops() []engine.LoopStats {
	all := make([]engine.LoopStats, len(d.loops))
	d.mu.Lock()
	for i, l := range d.loops {
		all[i].Connections = int(l.open.Load())
		all[i].Buffers = int(l.held.Load())
		l.queue.mu.Lock()
		all[i].Queued = l.queue.queuedLocked()
		all[i].Active = l.queue.tasks.count + l.queue.running
		all[i].Workers = l.queue.workers
		all[i].IdleWorkers = l.queue.parked
		l.queue.mu.Unlock()
	}
	d.mu.Unlock()
	d.table.each(func(fd int, p place) {
		if word := p.slot().word.Load(); !isIdle(word) {
			all[loopIndex(word)].Active++
		}
	})
	for _, other := range d.fallback.Loops() {
		if other.Connections > 0 {
			all = append(all, other)
		}
	}
	return all
}

// parcels is what adopted connections bring along, until they are opened.
type parcels struct {
	count atomic.Int32
	mu    sync.Mutex
	of    map[uint64]engine.Parcel // by descriptor and generation
}

func parcelKey(fd int, gen uint32) uint64 { return uint64(gen)<<32 | uint64(fd) }

func (d *driver) keepParcel(fd int, gen uint32, parcel engine.Parcel) {
	l := &d.parcels
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[uint64]engine.Parcel)
	}
	l.of[parcelKey(fd, gen)] = parcel
	l.count.Add(1)
}

func (d *driver) takeParcel(fd int, gen uint32) (parcel engine.Parcel) {
	if d.parcels.count.Load() > 0 { // the compiler inlines the usual case
		parcel = d.parcels.take(parcelKey(fd, gen))
	}
	return parcel
}

func (l *parcels) take(key uint64) engine.Parcel {
	l.mu.Lock()
	defer l.mu.Unlock()
	parcel, ok := l.of[key]
	if ok {
		delete(l.of, key)
		l.count.Add(-1)
	}
	return parcel
}

// killCause is the error of a connection that was killed.
func (d *driver) killCause() error {
	if d.life.Has(engine.StageShutDown) {
		return engine.ErrShutdown
	}
	return net.ErrClosed
}
