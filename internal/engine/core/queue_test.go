//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// queueOf returns a queue whose workers call serve.
func queueOf(limit int, serve func(fd int)) *runQueue {
	q := &runQueue{}
	q.init(limit, time.Second, func(w *worker) {
		go func() {
			for {
				fd, ok := q.next(w)
				if !ok {
					return
				}
				serve(fd)
			}
		}()
	})
	q.keep = 1
	return q
}

func (q *runQueue) counts() (workers, parked int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.workers, q.parked
}

func TestRingKeepsOrder(t *testing.T) {
	var r ring[int32]
	next, want := int32(0), int32(0)
	for round := range 200 {
		var some []int32
		for range round * 7 % 53 {
			some = append(some, next)
			next++
		}
		if round%2 == 0 {
			r.pushAll(some)
			some = nil
		}
		for _, item := range some {
			r.push(item)
		}
		for range min(round*5%47, r.count) {
			if got := r.pop(); got != want {
				t.Fatalf("popped %d, want %d", got, want)
			}
			want++
		}
	}
}

// A handler that blocks does not keep the others waiting, and each blocked one
// costs one worker. Those that come together may each be at work at the same time.
func TestBlockedWorkersAreReplaced(t *testing.T) {
	for _, c := range []struct {
		name     string
		together bool
		most     int // workers
	}{{"together", true, 6}, {"one after the other", false, 4}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testBlockedWorkers(t, c.together, c.most) })
		})
	}
}

func testBlockedWorkers(t *testing.T, together bool, most int) {
	gate := make(chan struct{})
	var mu sync.Mutex
	var served []int
	q := queueOf(0, func(fd int) {
		if fd < 3 {
			<-gate
		}
		mu.Lock()
		served = append(served, fd)
		mu.Unlock()
	})
	if together {
		q.push(0, 1, 2, 3, 4, 5)
	} else {
		for fd := range int32(6) {
			q.push(fd)
			synctest.Wait()
		}
	}
	synctest.Wait()
	if len(served) != 3 {
		t.Errorf("served %v while three are blocked", served)
	}
	if workers, _ := q.counts(); workers > most {
		t.Errorf("%d workers for three that block, want at most %d", workers, most)
	}
	close(gate)
	synctest.Wait()
	if len(served) != 6 {
		t.Errorf("served %v", served)
	}
	// Those that are not needed any more go.
	time.Sleep(3 * time.Second)
	synctest.Wait()
	if workers, parked := q.counts(); workers != 1 || parked != 1 {
		t.Errorf("%d workers, %d of them idle, want 1", workers, parked)
	}
	q.close()
	synctest.Wait()
	if workers, _ := q.counts(); workers != 0 {
		t.Errorf("%d workers after close", workers)
	}
}

// Where nothing blocks, one wake-up serves all that came in one pass.
func TestOneSpareAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := 0
		q := &runQueue{}
		q.init(0, time.Second, func(*worker) { started++ })
		q.push(1, 2, 3)
		q.push(4, 5)
		if started != 1 {
			t.Errorf("%d workers made runnable, want 1", started)
		}
		q.close()
	})
}

// While a handler waits, a pass queues a portion, and what is left comes in order, with what is
// ready by then. Otherwise it queues all.
func TestConnectionsAreQueuedInPortions(t *testing.T) {
	for _, test := range []struct {
		name                         string
		busy, ready, queued, portion int
		isLate                       bool // the last pass was long ago
		tasks                        int  // of the last 10 connections
		accepts                      bool
	}{
		{"a handler waits", 1, 3 * portion, 0, portion, false, 0, false},
		{"it waits, and few connections are ready", 1, portion, 0, portion, false, 0, false},
		{"no handler waits", 0, 3 * portion, 0, 3 * portion, false, 0, false},
		{"it waits, and a listener has connections", 1, 3 * portion, 0, portion, false, 0, true},
		{"others are queued", 1, 3 * portion, 1, 3 * portion, false, 0, false},
		{"the last pass was long ago", 1, 3 * portion, 0, 3 * portion, true, 100, false},
		{"streams begin tasks", 1, 3 * portion, 0, portion / 10, false, 100, false},
		{"one for two connections", 1, 3 * portion, 0, portion, false, 5, false},
		{"very many", 1, 3 * portion, 0, 1, false, 10 * maxAhead, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &loop{}
			q := &l.queue
			q.init(0, time.Second, func(*worker) {})
			q.workers, q.begun, l.queued = test.busy, test.tasks, 10
			for fd := range int32(test.ready) {
				l.ready = append(l.ready, fd)
			}
			for fd := range int32(test.queued) {
				q.ready.push(fd)
			}
			if test.accepts {
				l.intake.servings = []*serving{{ended: true}}
			}
			if l.passed.Store(clock.Nanos() + int64(time.Hour)); test.isLate {
				l.passed.Store(clock.Nanos() - portionPatience)
			}
			isLeft := l.pass(nil) == Again
			if n := q.ready.count - test.queued; n != test.portion || isLeft != (n < test.ready) || len(l.ready) != test.ready-n {
				t.Errorf("%d are queued, want %d; left %v: %d", n, test.portion, isLeft, len(l.ready))
			}
			l.ready = append(l.ready, int32(test.ready))
			for isLeft = true; isLeft; isLeft = l.pass(nil) == Again {
				l.passed.Store(clock.Nanos() - portionPatience)
			}
			for range test.queued {
				q.ready.pop()
			}
			for want := range int32(test.ready + 1) {
				if got := q.ready.pop(); got != want {
					t.Fatalf("%d comes, want %d", got, want)
				}
			}
		})
	}
}

// What a pass accepts belongs to its portion.
func TestAcceptedConnectionsAreAPortion(t *testing.T) {
	l := &loop{}
	l.queue.init(0, time.Second, func(*worker) {})
	l.queue.workers = 1
	l.intake.servings = []*serving{{ended: true}}
	for range 2 { // the first one queues nothing
		if room := l.room(0); room != portion {
			t.Errorf("there is room for %d connections, want %d", room, portion)
		}
	}
}

func TestWorkersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var mu sync.Mutex
		served := 0
		q := queueOf(2, func(int) {
			<-gate
			mu.Lock()
			served++
			mu.Unlock()
		})
		q.push(1, 2, 3, 4, 5)
		synctest.Wait()
		if workers, _ := q.counts(); workers != 2 {
			t.Errorf("%d workers, want 2", workers)
		}
		close(gate)
		synctest.Wait()
		if served != 5 {
			t.Errorf("served %d of 5", served)
		}
		q.close()
		synctest.Wait()
	})
}

// A worker that was exempt counts again while others are idle, so there is one too many.
// The one that leaves was woken for a connection, and another worker serves that.
func TestSurplusWorkerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrives, both, gate := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var served atomic.Int32
		var q *runQueue
		q = queueOf(2, func(fd int) {
			switch fd {
			case 0: // it waits for input, and then blocks
				q.Exempt(1)
				<-arrives
				q.Exempt(-1)
				<-gate
			case 1, 2:
				<-both
			}
			served.Add(1)
		})
		q.push(0)
		synctest.Wait()
		q.push(1, 2)
		synctest.Wait()
		close(both)
		synctest.Wait()
		close(arrives)
		synctest.Wait()
		if workers, parked := q.counts(); workers != 3 || parked != 2 {
			t.Fatalf("%d workers, %d of them idle, want 3 and 2", workers, parked)
		}
		q.push(3)
		synctest.Wait()
		if n := served.Load(); n != 3 {
			t.Errorf("%d connections were served, want 3", n)
		}
		if workers, _ := q.counts(); workers != 2 {
			t.Errorf("%d workers, want 2", workers)
		}
		close(gate)
		q.close()
		synctest.Wait()
	})
}

// A worker that a handler has ended is replaced, even if it was the last one
// allowed.
func TestLostWorkerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started []*worker
		q := &runQueue{}
		q.init(1, time.Second, func(w *worker) { started = append(started, w) })
		q.push(1, 2)
		if _, ok := q.next(started[0]); !ok {
			t.Fatal("no work")
		}
		q.lost(started[0])
		if len(started) != 2 {
			t.Fatalf("%d workers started, want 2", len(started))
		}
		if fd, ok := q.next(started[1]); !ok || fd != 2 {
			t.Errorf("the new one got %d, %v", fd, ok)
		}
		q.close()
	})
}

// A taskFunc is a task of a test.
type taskFunc func()

func (f taskFunc) Run()     { f() }
func (taskFunc) Lost(error) {}

// Connections and tasks are served in the order in which they came.
func TestTasksTakeTurns(t *testing.T) {
	q := &runQueue{}
	q.init(1, time.Second, func(*worker) {})
	var order []int
	do := func(n int) taskFunc { return func() { order = append(order, n) } }
	q.push(1)
	q.Go(do(2))
	q.push(3)
	q.Go(do(4))
	q.Go(do(5))
	q.push(6)
	w := &worker{}
	for range 6 {
		fd, ok := q.next(w)
		if !ok {
			t.Fatal("no work")
		}
		if w.task == nil {
			order = append(order, fd)
			continue
		}
		w.task.Run()
		w.task = nil
		q.taskEndedLocked()
	}
	if !slices.Equal(order, []int{1, 2, 3, 4, 5, 6}) || q.countTasks() != 0 {
		t.Errorf("order %v, %d tasks left", order, q.countTasks())
	}
}

// When all workers are blocked, the reserve serves the connections that never
// block, and leaves the others in their order.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var mu sync.Mutex
		var served []int
		q := queueOf(2, func(fd int) {
			if fd < 2 {
				<-gate
			}
			mu.Lock()
			defer mu.Unlock()
			served = append(served, fd)
		})
		q.neverBlocks = func(fd int32) bool { return fd >= 100 }
		q.push(0, 1)
		synctest.Wait()
		q.push(2, 100, 3, 101, 4)
		synctest.Wait()
		if !slices.Equal(served, []int{100, 101}) {
			t.Errorf("served %v while two are blocked, want 100 and 101", served)
		}
		q.push(102)
		q.push(5)
		synctest.Wait()
		if !slices.Equal(served, []int{100, 101, 102}) {
			t.Errorf("served %v while two are blocked, want 100 to 102", served)
		}
		if workers, _ := q.counts(); workers != 2 || q.hasReserve {
			t.Errorf("%d workers, want 2; reserve: %v", workers, q.hasReserve)
		}
		gate <- struct{}{} // one goes on, and serves all
		synctest.Wait()
		if got := served[4:]; !slices.Equal(got, []int{2, 3, 4, 5}) {
			t.Errorf("then it served %v, want 2 to 5", got)
		}
		close(gate)
		q.close()
		synctest.Wait()
	})
}

// A lost reserve makes room for another reserve, a lost worker for another worker.
func TestLostReserve(t *testing.T) {
	q := queueOf(2, func(int) {})
	q.workers, q.hasReserve = 2, true
	q.lost(&worker{role: roleReserve})
	if workers, _ := q.counts(); workers != 2 || q.hasReserve {
		t.Errorf("%d workers, reserve: %v after the reserve was lost", workers, q.hasReserve)
	}
	q.hasReserve = true
	q.lost(&worker{})
	if workers, _ := q.counts(); workers != 1 || !q.hasReserve {
		t.Errorf("%d workers, reserve: %v after a worker was lost", workers, q.hasReserve)
	}
}

// order takes all items of q, as one worker does, and calls each for it: with the
// descriptor, or with -1 for a task.
func order(q *runQueue, each func(fd int)) {
	for w := (&worker{}); ; w.task = nil {
		q.mu.Lock()
		fd, ok := q.popLocked(w)
		q.mu.Unlock()
		if !ok {
			return
		}
		if w.task != nil {
			fd = -1
		}
		each(fd)
	}
}

// The tasks of a connection, and then the connection, come before the next connection.
func TestTasksAreAheadOfOtherConnections(t *testing.T) {
	q := &runQueue{}
	q.init(0, time.Second, func(*worker) {})
	q.push(1, 2)
	var got []int
	reader := 0 // the connection whose tasks come next
	order(q, func(fd int) {
		got = append(got, fd)
		switch {
		case fd == -1 && reader != 0: // its first task
			q.pushAhead(int32(10 * reader))
			reader = 0
		case fd == 1, fd == 2:
			reader = fd
			q.Go(nothing{})
			q.Go(nothing{})
		}
	})
	if want := []int{1, -1, -1, 10, 2, -1, -1, 20}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// A gatedTask is a Task that waits, and then has output for a connection.
type gatedTask struct {
	gate  chan struct{}
	begun *atomic.Int64
	ended func()
}

func (w *gatedTask) Run() {
	w.begun.Add(1)
	<-w.gate
	w.ended()
}

func (*gatedTask) Lost(error) {}

// A gathering is a queue whose tasks have output for one connection. Its scheduler has one P.
type gathering struct {
	*runQueue
	begun     atomic.Int64
	ended     int
	isClaimed bool
	seen      chan int // gets ended, when the connection's turn comes
}

func newGathering(t *testing.T) *gathering {
	t.Helper()
	if invariants.Enabled {
		t.Skip("with the race detector, the scheduler's order is random")
	}
	procs := runtime.GOMAXPROCS(1)
	g := &gathering{runQueue: &runQueue{}, seen: make(chan int, 1)}
	t.Cleanup(func() {
		g.close()
		runtime.GOMAXPROCS(procs)
	})
	g.init(0, time.Second, func(w *worker) {
		go func() {
			for {
				_, ok := g.next(w)
				switch {
				case !ok:
					return
				case w.task != nil:
					w.task.Run()
				default:
					g.isClaimed = false
					g.seen <- g.ended
				}
			}
		}()
	})
	return g
}

// begin begins tasks that wait for gate, and returns when all do.
func (g *gathering) begin(tasks int, gate chan struct{}) {
	all := g.begun.Load() + int64(tasks)
	for range tasks {
		g.Go(&gatedTask{gate, &g.begun, g.end})
	}
	for g.begun.Load() < all {
		runtime.Gosched()
	}
}

func (g *gathering) end() {
	g.ended++
	if !g.isClaimed {
		g.isClaimed = true
		g.pushAhead(1)
	}
}

// The output of tasks that are woken together goes together.
func TestOutputOfWokenTasksIsGathered(t *testing.T) {
	g := newGathering(t)
	const tasks, rounds = 10, 20
	together := 0
	for range rounds {
		g.ended = 0
		gate := make(chan struct{})
		g.begin(tasks, gate)
		close(gate)
		first := <-g.seen
		for last := first; last < tasks; {
			last = <-g.seen
		}
		if first == tasks {
			together++
		}
	}
	if together < rounds/2 { // once in a while, the scheduler takes a worker before its turn
		t.Errorf("%d of %d bursts go together", together, rounds)
	}
}

// The output of a task that is woken alone does not wait for the others again and again.
func TestOutputOfOneTaskGoesAlone(t *testing.T) {
	g := newGathering(t)
	one, other := make(chan struct{}), make(chan struct{})
	g.begin(1, other)
	g.begin(1, one)
	close(one)
	<-g.seen
	g.mu.Lock()
	if g.alone != sentPlainly {
		t.Errorf("%d connections do not wait, want %d", g.alone, sentPlainly)
	}
	g.mu.Unlock()
	close(other)
	<-g.seen
}

// Beyond the bound, tasks stay in order, and a connection still comes after them.
func TestAheadIsBounded(t *testing.T) {
	q := &runQueue{}
	q.init(0, time.Second, func(*worker) {})
	for range 3 * maxAhead {
		q.Go(nothing{})
	}
	q.pushAhead(1)
	if q.ahead.count != maxAhead {
		t.Errorf("%d are ahead, want %d", q.ahead.count, maxAhead)
	}
	tasks := 0
	order(q, func(fd int) {
		if fd == -1 {
			tasks++
		} else if tasks != 3*maxAhead {
			t.Errorf("the connection came after %d tasks", tasks)
		}
	})
	if !q.hasRoomAheadLocked() {
		t.Error("there is no room in an empty queue")
	}
}

// A connection that is always ahead does not keep the others waiting for ever.
func TestOthersComeThoughSomeAreAhead(t *testing.T) {
	q := &runQueue{}
	q.init(0, time.Second, func(*worker) {})
	q.push(2)
	q.pushAhead(1)
	taken, other := 0, 0
	order(q, func(fd int) {
		taken++
		switch {
		case fd == 2:
			other = taken
		case taken < 10*maxAhead:
			q.pushAhead(1)
		}
	})
	if other != maxAhead+1 {
		t.Errorf("the other connection came as number %d of %d", other, taken)
	}
}

// With MaxWorkers nothing is ahead, because the reserve looks at the other items.
func TestNothingIsAheadWithALimit(t *testing.T) {
	q := &runQueue{}
	q.init(1, time.Second, func(*worker) {})
	q.Go(nothing{})
	q.pushAhead(1)
	if q.ahead.count != 0 || q.queuedLocked() != 2 {
		t.Errorf("%d of %d are ahead", q.ahead.count, q.queuedLocked())
	}
}

// nothing is a Task without work.
type nothing struct{}

func (nothing) Run()       {}
func (nothing) Lost(error) {}
