package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/bench/internal/command"
)

// A benchCase is a scenario with a GOMAXPROCS.
type benchCase struct {
	scenario
	procs   int
	samples map[string][]sample // by contender, round by round
}

// A sample is one contender's turn; all figures are per request.
type sample struct {
	nanoseconds, cpuNanoseconds, allocs, bytes float64
}

// measure runs all rounds of a case.
func measure(ctx context.Context, c *benchCase, o options, progress string) (err error) {
	runtime.GOMAXPROCS(c.procs)
	var at site
	crews := make([]*crew, len(c.makers))
	for i, m := range c.makers {
		if i == 0 || c.server == serverOwn {
			if at, err = c.open(m.name); err != nil {
				return err
			}
			stop := at.stop
			defer func() { err = errors.Join(err, stop()) }()
		}
		env := environment{dial: at.dial, conns: c.parallel * c.procs}
		crews[i] = newCrew(m.make(env), env.conns)
		defer crews[i].dismiss()
		if err := crews[i].calibrate(o.turn); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	c.samples = make(map[string][]sample)
	for round := range o.rounds {
		command.Progress("%s%s, GOMAXPROCS %d, round %d/%d", progress, c.name(), c.procs, round+1, o.rounds)
		for _, i := range rand.Perm(len(crews)) {
			s, err := crews[i].turn()
			if err != nil {
				return fmt.Errorf("%s: %w", c.makers[i].name, err)
			}
			c.samples[c.makers[i].name] = append(c.samples[c.makers[i].name], s)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// A crew is a client with its workers, which wait until there is something to
// do.
type crew struct {
	client
	begin    []chan struct{} // of each worker
	requests int             // in a turn

	left    atomic.Int64 // requests that no worker has taken yet
	working sync.WaitGroup
	failure atomic.Pointer[error] // the first
}

// newCrew starts the workers.
func newCrew(c client, workers int) *crew {
	w := &crew{client: c}
	for range workers {
		begin, send := make(chan struct{}, 1), c.worker()
		w.begin = append(w.begin, begin)
		go func() {
			for range begin {
				w.work(send)
				w.working.Done()
			}
		}()
	}
	return w
}

// share is how many requests a worker takes at once, so that they don't meet at
// the counter for each.
const share = 4

// work sends requests as long as there are some to send.
func (w *crew) work(send operation) {
	for w.failure.Load() == nil {
		after := w.left.Add(-share)
		for range min(share, after+share) {
			if err := send(); err != nil {
				w.fail(err)
				return
			}
		}
		if after <= 0 {
			return
		}
	}
}

func (w *crew) fail(err error) { w.failure.CompareAndSwap(nil, &err) }

// lap has the workers send so many requests together.
func (w *crew) lap(requests int) (time.Duration, error) {
	w.left.Store(int64(requests))
	w.working.Add(len(w.begin))
	start := time.Now()
	for _, begin := range w.begin {
		begin <- struct{}{}
	}
	w.working.Wait()
	taken := time.Since(start)
	if err := w.failure.Load(); err != nil {
		return taken, *err
	}
	return taken, nil
}

// perWorker is the least number of requests of a worker in a turn: fewer would
// measure how workers begin and end.
const perWorker = 10

// calibrate finds how many requests fill a turn. It opens the connections.
func (w *crew) calibrate(turn time.Duration) error {
	w.requests = perWorker * len(w.begin)
	for {
		taken, err := w.lap(w.requests)
		if err != nil || taken >= turn {
			return err
		}
		w.requests *= 2
		if taken > turn/8 {
			w.requests = max(w.requests/2, int(float64(w.requests/2)*float64(turn)/float64(taken)*1.05))
		}
	}
}

// turn measures one turn.
func (w *crew) turn() (sample, error) {
	// Everybody begins without others' garbage, and with pools that are filled
	// as under a steady load of all workers.
	runtime.GC()
	if _, err := w.lap(max(w.requests/5, 2*share*len(w.begin))); err != nil {
		return sample{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, err := cpuTime()
	if err != nil {
		return sample{}, err
	}
	taken, err := w.lap(w.requests)
	if err != nil {
		return sample{}, err
	}
	usedNow, err := cpuTime()
	runtime.ReadMemStats(&after)
	n := float64(w.requests)
	return sample{
		nanoseconds:    float64(taken.Nanoseconds()) / n,
		cpuNanoseconds: float64((usedNow - used).Nanoseconds()) / n,
		allocs:         float64(after.Mallocs-before.Mallocs) / n,
		bytes:          float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, err
}

// cpuTime is what all threads of this process have used.
func cpuTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("the process's CPU time: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// dismiss ends the workers and closes the connections.
func (w *crew) dismiss() {
	for _, begin := range w.begin {
		close(begin)
	}
	w.close()
}
