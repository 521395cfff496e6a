package shared

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLease(t *testing.T) {
	for _, epochs := range [][2]uint64{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {5, 3}, {1<<16 - 1, 1 << 16}, {1 << 20, 1<<20 + 1}} {
		t.Run(fmt.Sprint(epochs), func(t *testing.T) { testLease(t, epochs) })
	}
}

// testLease tests two processes in places that other processes had before.
func testLease(t *testing.T, epochs [2]uint64) {
	s := newLocal(t)
	s.laneWord(1, laneEpoch).Store(epochs[0])
	s.laneWord(2, laneEpoch).Store(epochs[1])
	own, other := attachAgain(t, s, 999_999_998), attachAgain(t, s, 999_999_999)
	mine, theirs := Must(own.Lease("lease", 0)), Must(other.Lease("lease", 0))
	if mine.Held() || mine.Holder() != 0 || mine.Renew() {
		t.Error("a new lease is held")
	}
	if !theirs.TryAcquire() || theirs.TryAcquire() || mine.TryAcquire() {
		t.Error("not taken by one and only one")
	}
	mine.Release()
	if !theirs.Held() || mine.Held() || mine.Holder() != 999_999_999 || !theirs.Renew() {
		t.Error("not held by the one who took it")
	}
	theirs.Release()
	if !mine.TryAcquire() {
		t.Error("not free after Release")
	}
	mine.Release()
	theirs.TryAcquire()
	s.Reap(999_999_999)
	if mine.Holder() != 0 || theirs.Held() || theirs.Renew() || !mine.TryAcquire() {
		t.Error("not free after its holder has died")
	}
	if theirs.Release(); !mine.Held() {
		t.Error("released by the dead")
	}
}

func TestLeaseWithLimit(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	mine, theirs := Must(s.Lease("lease", time.Hour)), Must(other.Lease("lease", time.Hour))
	if !theirs.TryAcquire() || mine.TryAcquire() {
		t.Fatal("not taken")
	}
	s.created -= int64(59 * time.Minute) // for this process, time has passed
	if mine.TryAcquire() {
		t.Error("lost before its limit")
	}
	s.created -= int64(2 * time.Minute)
	if mine.Holder() != 0 || !mine.TryAcquire() || theirs.Held() || theirs.Renew() {
		t.Error("not lost after its limit")
	}
	if _, err := s.Lease("other", 1000*24*time.Hour); !errors.Is(err, ErrOption) {
		t.Errorf("limit of three years: %v", err)
	}
}

// A lease lasts at least for its limit, until the end of that millisecond, and Renew
// restarts it.
func TestLeaseTime(t *testing.T) {
	for _, limit := range []time.Duration{1, time.Millisecond, time.Millisecond + 1, time.Second - 1, 366 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := newLocal(t)
			s.created = s.Now()
			other := attachAgain(t, s, 999_999_999)
			other.clock, other.created = s.clock, s.created
			mine, theirs := Must(s.Lease("lease", limit)), Must(other.Lease("lease", limit))
			time.Sleep(300 * time.Microsecond)
			if !mine.TryAcquire() {
				t.Fatal("not acquired")
			}
			for round := range 5 {
				if round > 0 && !mine.Renew() {
					t.Fatalf("limit %v, round %d: not renewed", limit, round)
				}
				time.Sleep(limit - 1)
				if !mine.Held() || theirs.TryAcquire() || theirs.Holder() == 0 {
					t.Fatalf("limit %v, round %d: lost too early", limit, round)
				}
			}
			now := time.Duration(s.Now() - s.created)
			time.Sleep((now + time.Millisecond).Truncate(time.Millisecond) - now - 1)
			if !mine.Held() || theirs.TryAcquire() {
				t.Errorf("limit %v: lost in the middle of a millisecond", limit)
			}
			time.Sleep(time.Nanosecond)
			if mine.Held() || theirs.Holder() != 0 || !theirs.TryAcquire() {
				t.Errorf("limit %v: not lost in time", limit)
			}
		})
	}
}

// If a process's clock is behind the segment's origin, its lease still ends.
func TestLeaseBeforeBeginning(t *testing.T) {
	s := newLocal(t)
	s.created = s.Now() + int64(time.Hour)
	lease := Must(s.Lease("lease", time.Second))
	if !lease.TryAcquire() || lease.holder.Load()&leaseEndMask != 1 {
		t.Errorf("the lease's word is %x", lease.holder.Load())
	}
}

func leadRole(s *Segment, in *bufio.Scanner) {
	lease := Must(s.Lease("lead", 0))
	leaders := Must(s.Gauge("leaders"))
	say("ready")
	_ = lease.Lead(context.Background(), func(context.Context) error {
		leaders.Inc()
		say("leads")
		hear(in)
		return nil
	})
}

// There is exactly one leader, and another one after it was killed.
func TestLeaderIsKilled(t *testing.T) {
	s := newShared(t, 8)
	lease, leaders := Must(s.Lease("lead", 0)), Must(s.Gauge("leaders"))
	workers := startProcesses(t, s, "lead", 4)
	byPID := map[int]*worker{}
	for _, w := range workers {
		byPID[w.cmd.Process.Pid] = w
	}
	for len(byPID) > 0 {
		pid := lease.Holder()
		for ; pid == 0; pid = lease.Holder() {
			time.Sleep(time.Millisecond)
		}
		leader := byPID[pid]
		if leader == nil {
			t.Fatalf("process %d leads: it is dead, or none of them", pid)
		}
		leader.expect("leads")
		if n := leaders.Value(); n != 1 {
			t.Errorf("%d processes lead", n)
		}
		killed := time.Now()
		leader.kill()
		delete(byPID, pid)
		for len(byPID) > 0 && lease.Holder() == 0 {
			time.Sleep(time.Millisecond)
		}
		t.Logf("the next one leads %v after the kill", time.Since(killed))
	}
	if lease.Holder() != 0 {
		t.Error("a dead process leads")
	}
}

func TestLeadInOneProcess(t *testing.T) {
	lease := Must(newLocal(t).Lease("lease", time.Minute)) // no goroutine is kept from its processor for so long
	running, most := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_ = lease.Lead(t.Context(), func(ctx context.Context) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-time.After(time.Millisecond)
				mu.Lock()
				running--
				mu.Unlock()
				return nil
			})
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d goroutines led at once", most)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lease.TryAcquire()
	cancel()
	if err := lease.Lead(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Lead with a context that has ended: %v", err)
	}
}

// A leader is told when it has lost its lease.
func TestLeadIsLost(t *testing.T) {
	s := newLocal(t)
	lease := Must(s.Lease("lease", 10*time.Millisecond))
	err := lease.Lead(t.Context(), func(ctx context.Context) error {
		lease.holder.Store(0) // as if it had expired and another process had taken and released it
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestOnce(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	mine, theirs := Must(s.Once("once")), Must(other.Once("once"))
	bad := errors.New("bad")
	if err := mine.Do(t.Context(), func() error { return bad }); err != bad || mine.Done() {
		t.Errorf("failed: %v, done %v", err, mine.Done())
	}
	func() {
		defer func() { _ = recover() }()
		_ = mine.Do(t.Context(), func() error { panic("bad") })
	}()
	theirs.state.Store(other.token) // the other process runs it
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := mine.Do(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another is at it: %v", err)
	}
	s.Reap(999_999_999) // and dies
	calls := 0
	for range 2 {
		if err := mine.Do(t.Context(), func() error { calls++; return nil }); err != nil {
			t.Error(err)
		}
	}
	if calls != 1 || !theirs.Done() {
		t.Errorf("%d calls, done %v", calls, theirs.Done())
	}
}

func onceRole(s *Segment, in *bufio.Scanner) {
	once, calls := Must(s.Once("once")), Must(s.Counter("calls"))
	say("ready")
	hear(in)
	_ = once.Do(context.Background(), func() error {
		calls.Inc()
		return nil
	})
	say(calls.Value())
}

func holdRole(s *Segment, in *bufio.Scanner) {
	_ = Must(s.Once("once")).Do(context.Background(), func() error {
		say("ready")
		hear(in)
		return nil
	})
}

// The first process is killed during its call; then exactly one of the others makes
// the call, and all wait for it.
func TestOnceOverProcesses(t *testing.T) {
	s := newShared(t, 8)
	first := startProcesses(t, s, "hold", 1)[0]
	workers := startProcesses(t, s, "once", 4)
	for _, w := range workers {
		w.send("go")
	}
	if Must(s.Once("once")).Done() {
		t.Error("done too soon")
	}
	first.kill()
	for _, w := range workers {
		w.expect("1")
	}
}

// When its context ends, a process that waits in Lead returns with an error and has
// not led.
func TestLeadGivesUp(t *testing.T) {
	s := newLocal(t)
	theirs := Must(attachAgain(t, s, 999_999_999).Lease("lead", 0))
	if !theirs.TryAcquire() {
		t.Fatal("the lease is not free")
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(3*pollPause, func() { cancel(cause) })
	err := Must(s.Lease("lead", 0)).Lead(ctx, func(context.Context) error {
		t.Error("it leads")
		return nil
	})
	if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		t.Errorf("Lead: %v", err)
	}
}
