//go:build linux && (amd64 || arm64)

package core

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

func TestTicks(t *testing.T) {
	const wrap = int64(1<<32) * tick
	for _, now := range []int64{1, tick, 12345 * tick, wrap - 5*tick, wrap, 3*wrap + 17} {
		for _, wait := range []time.Duration{1, time.Millisecond, time.Second, time.Hour, longestWait} {
			deadline := now + int64(wait)
			at := expiryOf(deadline)
			if at == 0 {
				t.Fatalf("deadline %d has no expiry", deadline)
			}
			if !isBefore(tickOf(deadline-1-tick), at) {
				t.Errorf("now %d, wait %v: expires early", now, wait)
			}
			if isBefore(tickOf(deadline+2*tick), at) {
				t.Errorf("now %d, wait %v: expires late", now, wait)
			}
			if back := nanosOf(at, now); back < deadline || back > deadline+2*tick {
				t.Errorf("now %d, wait %v: came back as %d, off by %d", now, wait, back, back-deadline)
			}
		}
	}
	if expiryOf(0) != 0 || nanosOf(0, 99) != 0 {
		t.Error("no deadline is not 0")
	}
}

// A deadline expires with the first tick that is not before it. 0 is no deadline,
// also where the ticks wrap around to it.
func TestExpiryIsExact(t *testing.T) {
	const wrap = int64(1<<32) * tick
	for _, c := range []struct {
		deadline int64
		want     uint32
	}{
		{1, 1}, {tick, 1}, {tick + 1, 2}, {2 * tick, 2}, {1000*tick - 1, 1000},
		{wrap - tick, 1<<32 - 1}, {wrap - tick + 1, 1}, {wrap, 1}, {wrap + 1, 1}, {wrap + tick + 1, 2},
	} {
		if got := expiryOf(c.deadline); got != c.want {
			t.Errorf("deadline %d expires with tick %d, want %d", c.deadline, got, c.want)
		}
	}
	for _, c := range []struct {
		expiry uint32
		now    int64
		want   int64
	}{
		{1000, 0, 1000 * tick}, {1000, 5*tick + 17, 1000 * tick}, {1000, 2000 * tick, 1000 * tick},
		{3, wrap - 2*tick, wrap + 3*tick}, {1<<32 - 1, wrap + tick, wrap - tick},
	} {
		if got := nanosOf(c.expiry, c.now); got != c.want {
			t.Errorf("at %d, tick %d is %d, want %d", c.now, c.expiry, got, c.want)
		}
	}
}

// Deadlines of long time-outs are late by at most 1/64, and coincide.
func TestDeadlinesCoincide(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, timeout := range []time.Duration{1, time.Second, longWait - 1, longWait, 5 * time.Second, time.Minute, time.Hour, longestWait} {
		for range 1000 {
			now := random.Int64N(int64(1000 * time.Hour))
			at := now + int64(timeout)
			got := deadlineOf(now, timeout)
			late := time.Duration(got - at)
			if late < 0 || late > min(timeout/64, mostGrain) || timeout < longWait && late > 0 {
				t.Fatalf("%v after %d is late by %v", timeout, now, late)
			}
		}
	}
	// 45 s, ± 20 %, of connections that have become idle during ten seconds.
	deadlines := make(map[int64]bool)
	for range 100_000 {
		timeout := 36*time.Second + time.Duration(random.Int64N(int64(18*time.Second)))
		deadlines[deadlineOf(random.Int64N(int64(10*time.Second)), timeout)] = true
	}
	if len(deadlines) > 28*2 {
		t.Errorf("%d deadlines in 28 s", len(deadlines))
	}
}

func TestTicksInOrder(t *testing.T) {
	const half = 1 << 31
	for _, c := range []struct {
		a, b uint32
		want bool
	}{
		{4, 5, true}, {5, 4, false}, {5, 5, false}, {0, 1, true}, {1, 0, false},
		{1<<32 - 1, 1, true}, {1, 1<<32 - 1, false}, {7, half + 6, true}, {half + 6, 7, false},
	} {
		if got := isBefore(c.a, c.b); got != c.want {
			t.Errorf("%d before %d: %v", c.a, c.b, got)
		}
	}
}

// A round that was long, perhaps only because other programs had the processor, does not
// delay the next one for long.
func TestSweepPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 0, 100 * time.Microsecond: 10 * time.Millisecond, 5 * time.Millisecond: 500 * time.Millisecond, 10 * time.Millisecond: time.Second,
		100 * time.Millisecond: time.Second, time.Hour: time.Second,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after a round of %v: %v, want %v", took, got, want)
		}
	}
}

// swept returns an engine with a sweep, and connections that wait, whose workers
// never begin.
func swept() *driver {
	d := &driver{source: newPollSource(), options: engine.Options{}.WithDefaults()}
	d.sweep.driver = d
	l := newLoop(d, 0)
	l.queue.start = func(*worker) {}
	d.loops = []*loop{l}
	return d
}

// waits has a connection wait until timeout has passed from now on; 0: for ever.
func (d *driver) waits(fd int, timeout time.Duration) *slot {
	s := d.table.open(fd).slot()
	s.open(uint32(fd), 0, 0)
	if timeout > 0 {
		s.expiry.Store(expiryOf(clock.Nanos() + int64(timeout)))
	}
	s.release(0)
	return s
}

// The sweep claims a connection when its deadline has passed, not before, and
// leaves those alone that are at work or wait for ever.
func TestSweepClaimsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := swept()
		defer d.sweep.close()
		early, late, never := d.waits(3, time.Second), d.waits(4, 3*time.Second), d.waits(5, 0)
		busy := d.waits(6, 2*time.Second)
		busy.claim(0, 0)
		d.sweep.schedule(early.expiry.Load())
		check := func(when string, isEarly, isLate bool, next uint32) {
			t.Helper()
			synctest.Wait()
			for s, want := range map[*slot]bool{early: isEarly, late: isLate, never: false, busy: false} {
				if got := s.has(flagExpired); got != want {
					t.Errorf("%s: a slot is claimed: %v, want %v", when, got, want)
				}
			}
			if got := d.sweep.next.Load(); got != next {
				t.Errorf("%s: the next round is at %d, want %d", when, got, next)
			}
		}
		time.Sleep(time.Second - 2*time.Millisecond)
		check("before", false, false, early.expiry.Load())
		time.Sleep(4 * time.Millisecond)
		check("after the first", true, false, busy.expiry.Load())
		time.Sleep(time.Second)
		check("after the one at work", true, false, late.expiry.Load())
		time.Sleep(time.Second)
		check("after the last", true, true, 0)
		if n := d.loops[0].queue.ready.count; n != 2 {
			t.Errorf("%d connections are queued, want 2", n)
		}
	})
}

// Between two rounds the sweep pauses, longer if a round has taken long.
func TestSweepPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pause, want := range map[time.Duration]time.Duration{0: 10 * time.Millisecond, time.Second: time.Second} {
			d := swept()
			d.sweep.pause = pause
			s := d.waits(3, 2*time.Millisecond)
			d.sweep.schedule(s.expiry.Load())
			time.Sleep(want - time.Millisecond)
			synctest.Wait()
			if s.has(flagExpired) {
				t.Errorf("pause %v: the round came early", pause)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if !s.has(flagExpired) {
				t.Errorf("pause %v: the round did not come", pause)
			}
			d.sweep.close()
		}
	})
}

// A sweep that is closed has no more rounds.
func TestSweepCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := swept()
		s := d.waits(3, time.Second)
		d.sweep.schedule(s.expiry.Load())
		d.sweep.close()
		time.Sleep(2 * time.Second)
		if s.has(flagExpired) {
			t.Error("a round after close")
		}
		d.sweep.next.Store(0)
		d.sweep.schedule(s.expiry.Load())
		if next := d.sweep.next.Load(); next != 0 {
			t.Errorf("it plans a round at %d", next)
		}
	})
}

// The sweep plans for the earliest deadline and for nothing else.
func TestSweepPlansForTheEarliest(t *testing.T) {
	d := &driver{}
	s := &d.sweep
	s.driver = d
	defer s.close()
	far := expiryOf(int64(time.Hour))
	for _, step := range []struct{ expiry, next uint32 }{
		{far, far}, {far + 1000, far}, {far - 1000, far - 1000}, {far, far - 1000},
	} {
		s.schedule(step.expiry)
		if got := s.next.Load(); got != step.next {
			t.Errorf("after %d: the next round is at %d, want %d", step.expiry, got, step.next)
		}
	}
	s.round()
	if got := s.next.Load(); got != 0 {
		t.Errorf("without connections the next round is at %d", got)
	}
}

func TestSelfTest(t *testing.T) {
	if !testTLS() {
		t.Error("crypto/tls does not go on after a read that found nothing: TLS goes to the fallback engine")
	}
}
