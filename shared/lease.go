package shared

import (
	"context"
	"fmt"
	"time"
)

// A lease's word holds three values: its holder's lane plus one, the low bits of
// the lane's epoch, and when the lease ends, in milliseconds since the segment was
// made (zero if it has no time limit). They are in one word so that a single
// compare-and-swap changes the holder.
const (
	leaseEndBits   = 38 // 8.7 years
	leaseEpochBits = 16
	leaseEndMask   = 1<<leaseEndBits - 1
	leaseEpochMask = 1<<leaseEpochBits - 1
	leaseLaneShift = leaseEndBits + leaseEpochBits
)

// At most one process holds a Lease: for example the one that runs the timed jobs,
// or that fetches what all others wait for. The process holds it, not the goroutine
// that acquired it.
//
// Crash rule: it is free as soon as its holder is reaped. A holder that is alive
// keeps it, however slow it is, unless the lease has a time limit.
type Lease struct {
	segment *Segment
	holder  *word
	limit   time.Duration
}

// Lease returns the lease of that name. If limit is more than zero, the lease ends
// that long after it was acquired or renewed, rounded up to a millisecond. A holder
// that hangs then loses it. Until that holder calls [Lease.Held], two processes may
// act as the holder; without a limit this cannot happen. Errors: [ErrOption] for a
// limit above 366 days, [ErrName], [ErrFull], [ErrMismatch], [ErrBusy].
func (s *Segment) Lease(name string, limit time.Duration) (*Lease, error) {
	if limit > 366*24*time.Hour {
		return nil, fmt.Errorf("%w: lease %q for %v", ErrOption, name, limit)
	}
	words, err := s.open(name, kindLease, parameters{}, lineWords)
	if err != nil {
		return nil, err
	}
	return &Lease{s, &words[0], limit}, nil
}

// TryAcquire acquires the lease if it is free, and reports whether it did. It returns
// false if this process already holds it.
func (l *Lease) TryAcquire() bool {
	for {
		old := l.holder.Load()
		if l.isHeld(old) {
			return false
		}
		if l.holder.CompareAndSwap(old, l.word()) {
			return true
		}
	}
}

// Renew restarts the time limit. It returns false if this process does not hold
// the lease. A holder whose limit has passed can still renew the lease if no other
// process has acquired it.
func (l *Lease) Renew() bool {
	for {
		old := l.holder.Load()
		if !l.isOwn(old) {
			return false
		}
		if l.holder.CompareAndSwap(old, l.word()) {
			return true
		}
	}
}

// Release makes the lease free. It does nothing if this process does not hold it.
func (l *Lease) Release() {
	for old := l.holder.Load(); l.isOwn(old); old = l.holder.Load() {
		if l.holder.CompareAndSwap(old, 0) {
			return
		}
	}
}

// Held reports whether this process holds the lease.
func (l *Lease) Held() bool {
	old := l.holder.Load()
	return l.isOwn(old) && l.isHeld(old)
}

// Holder returns the id of the process that holds the lease; zero if it is free.
func (l *Lease) Holder() (pid int) {
	old := l.holder.Load()
	if !l.isHeld(old) {
		return 0
	}
	return int(l.segment.laneWord(leaseLane(old), lanePID).Load())
}

// Lead waits until this process acquires the lease, and calls run. It renews the
// lease while run runs, releases it when run returns, and returns run's error.
// run's context ends with ctx; it also ends when the lease is lost, with the cause
// [ErrLost]. If ctx ends during the wait, Lead returns ctx's error.
//
//	go jobs.Lead(ctx, runJobs) // in every worker; one of them runs the jobs
func (l *Lease) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for !l.TryAcquire() {
		if err := pause(ctx); err != nil {
			return err
		}
	}
	defer l.Release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.limit > 0 {
		go l.keep(ctx, cancel)
	}
	return run(ctx)
}

// keep renews the lease until ctx ends, and ends it if the lease is lost.
func (l *Lease) keep(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(max(l.limit/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !l.Held() || !l.Renew() {
				cancel(ErrLost)
				return
			}
		}
	}
}

// milliseconds returns now plus later, in the unit of a lease's word.
func (l *Lease) milliseconds(later time.Duration) int64 {
	return (l.segment.clock.now() - l.segment.created + int64(later)) / int64(time.Millisecond)
}

// word returns the word of a lease that this process acquires now.
func (l *Lease) word() uint64 {
	end := int64(0)
	if l.limit > 0 {
		end = max(l.milliseconds(l.limit+time.Millisecond-1), 1) // rounded up
	}
	token := l.segment.token
	return token>>tokenLaneBits<<leaseLaneShift | token&leaseEpochMask<<leaseEndBits | uint64(end)&leaseEndMask
}

func leaseLane(held uint64) int { return int(held>>leaseLaneShift) - 1 }

// isOwn reports whether this process is the last holder, and has not been reaped by
// mistake.
func (l *Lease) isOwn(held uint64) bool {
	return leaseLane(held) == l.segment.lane && held>>leaseEndBits&leaseEpochMask == l.segment.token&leaseEpochMask && l.segment.isAlive(l.segment.token)
}

// isHeld reports whether the last holder is alive and its time has not passed.
func (l *Lease) isHeld(held uint64) bool {
	lane := leaseLane(held)
	if lane < 0 || lane >= l.segment.layout.lanes || l.segment.laneWord(lane, lanePID).Load() == 0 {
		return false
	}
	if l.segment.laneWord(lane, laneEpoch).Load()&leaseEpochMask != held>>leaseEndBits&leaseEpochMask {
		return false
	}
	end := int64(held & leaseEndMask)
	return end == 0 || l.milliseconds(0) < end
}
