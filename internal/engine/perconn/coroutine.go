package perconn

import (
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
)

// A coroutine is a stack to borrow. The goroutine of a connection calls resume,
// which runs one task on the coroutine's stack and comes back when the task is
// done (or when it is over with the coroutine: runtime.Goexit in a handler ends
// both). The task may block for as long as it likes; the connection's goroutine
// is then simply not running. Switching there and back costs a fifth of a
// channel ping-pong, since the scheduler is not involved.
//
// A coroutine also owns the buffers that a connection needs only while it has
// input.
type coroutine struct {
	resume func() (struct{}, bool)
	stop   func()

	worker *worker // the slot: whose task it is
	task   task
	result bool // what the task returned

	in       []byte // made at the first use
	out      []byte
	receiver receiver

	home     *stackShard
	nextFree *coroutine
}

// task is what a coroutine is borrowed for.
type task uint8

const (
	taskAccept task = iota // accept a connection and open it
	taskOpen               // open the connection that is there
	taskInput              // the socket may be readable
	taskLeft               // RawConn.Read has returned
)

func newCoroutine(home *stackShard) *coroutine {
	co := &coroutine{home: home}
	home.made.Add(1)
	co.resume, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		for {
			co.run()
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return co
}

// coroutineMemory is about what a coroutine's stack and its buffers take.
const coroutineMemory = 32 << 10

// end takes the coroutine out of existence. It is not running.
func (co *coroutine) end() {
	co.home.made.Add(-1)
	buf.LetGo(coroutineMemory)
	co.stop()
}

// lockedThreads is how many nested LockOSThread calls of a callback are undone.
const lockedThreads = 4

// unlockThread undoes what a callback forgot to. The runtime ends the process
// when a goroutine switches to or from a coroutine while it is locked to its
// thread. It costs 2 ns per call where there is nothing to undo.
func unlockThread() {
	for range lockedThreads {
		runtime.UnlockOSThread()
	}
}

// run performs the task in the slot. Panics must not cross the switch: they
// would come out on the connection's goroutine inside RawConn.Read.
func (co *coroutine) run() {
	defer func() {
		if v := recover(); v != nil {
			co.result = co.worker.panicked(co.task, v)
		}
		unlockThread()
	}()
	co.home.reserve()
	co.result = co.worker.perform(co.task)
}

// attach lends the coroutine's buffers to c.
func (co *coroutine) attach(c *conn) {
	if co.in == nil {
		co.in = make([]byte, c.driver.options.ReadBufferSize)
		co.out = make([]byte, 0, firstOutputSize)
	}
	c.in, c.out = co.in, co.out[:0]
}

// detach takes the buffers back.
func (co *coroutine) detach(c *conn) {
	if cap(c.out) <= keptOutputSize {
		co.out = c.out[:0]
	}
	c.in, c.out = nil, nil
}

// stacks is a pool of coroutines. It is not a sync.Pool because a coroutine
// that is dropped without stop leaks its goroutine.
type stacks struct {
	shards []stackShard
}

// A stackShard lends the coroutine that was returned last: its stack and its
// buffers are warm, and the others may grow old. Its methods get and put are
// called on connections' goroutines, whose stacks must stay shallow: so the
// lock is only tried (the slow path of Lock is deep) and the list is intrusive.
type stackShard struct {
	made     atomic.Int64 // coroutines that exist
	mu       sync.Mutex
	head     *coroutine
	free     int
	low      int // least number of free coroutines since the last sweep
	sweeping bool
	closed   bool
	keep     int
	maxIdle  time.Duration
	timer    *time.Timer
}

func (s *stacks) init(shards int, maxIdle time.Duration) {
	s.shards = make([]stackShard, shards)
	for i := range s.shards {
		s.shards[i].keep = max(2*runtime.GOMAXPROCS(0)/shards, 1)
		s.shards[i].maxIdle = maxIdle
	}
}

func (s *stackShard) lock() {
	for !s.mu.TryLock() {
		runtime.Gosched()
	}
}

// get lends a coroutine, preferring those of one shard.
func (s *stacks) get(shard uint16) *coroutine {
	for i := range s.shards {
		home := &s.shards[(int(shard)+i)&(len(s.shards)-1)]
		if co := home.take(); co != nil {
			return co
		}
	}
	return newCoroutine(&s.shards[shard])
}

func (s *stackShard) take() *coroutine {
	s.lock()
	co := s.head
	if co != nil {
		s.head, co.nextFree = co.nextFree, nil
		s.free--
		s.low = min(s.low, s.free)
	}
	s.mu.Unlock()
	return co
}

// put takes a coroutine back after its resume has returned. It must not be
// called on the coroutine itself: the next borrower could resume it before it
// has switched away.
func (s *stackShard) put(co *coroutine) {
	s.lock()
	if s.closed {
		s.mu.Unlock()
		co.end()
		return
	}
	co.nextFree, s.head = s.head, co
	s.free++
	startSweep := s.free > s.keep && !s.sweeping
	if startSweep {
		s.sweeping, s.low = true, s.free
	}
	s.mu.Unlock()
	if startSweep {
		s.schedule()
	}
}

// reserve makes sure that there is a coroutine for the next borrower. It is
// called on a coroutine, because making one needs more stack than a
// connection's goroutine should use.
func (s *stackShard) reserve() {
	s.lock()
	enough := s.head != nil || s.closed
	s.mu.Unlock()
	if !enough {
		s.put(newCoroutine(s))
	}
}

func (s *stackShard) schedule() {
	timer := time.AfterFunc(s.maxIdle, s.sweep)
	s.lock()
	s.timer = timer
	closed := s.closed
	s.mu.Unlock()
	if closed {
		timer.Stop()
	}
}

// sweep stops the coroutines that nobody needed since the last sweep, except
// for a few.
func (s *stackShard) sweep() {
	s.lock()
	surplus := min(s.low, s.free) - s.keep
	kept := s.free - max(surplus, 0)
	old := s.cut(kept)
	s.low = s.free
	again := s.free > s.keep && !s.closed
	s.sweeping = again
	s.mu.Unlock()
	stopAll(old)
	if again {
		s.schedule()
	}
}

// cut shortens the free list to its kept most recently used entries and
// returns the others.
func (s *stackShard) cut(kept int) *coroutine {
	at := &s.head
	for range kept {
		at = &(*at).nextFree
	}
	old := *at
	*at = nil
	s.free = kept
	return old
}

// count returns the numbers of coroutines: those that exist and those of them
// that are free.
func (s *stacks) count() (made, free int) {
	for i := range s.shards {
		home := &s.shards[i]
		home.lock()
		made += int(home.made.Load())
		free += home.free
		home.mu.Unlock()
	}
	return made, free
}

// close stops the coroutines that are free, and from now on those that are
// given back.
func (s *stacks) close() {
	for i := range s.shards {
		home := &s.shards[i]
		home.lock()
		home.closed = true
		old := home.cut(0)
		if home.timer != nil {
			home.timer.Stop()
		}
		home.mu.Unlock()
		stopAll(old)
	}
}

func stopAll(co *coroutine) {
	for co != nil {
		next := co.nextFree
		co.nextFree = nil
		co.end()
		co = next
	}
}
