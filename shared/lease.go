package shared

import (
	"context"
	"fmt"
	"time"
)

// A lease's word is its holder's lane plus one, the end of its epoch, and when
// the lease ends, in milliseconds since the segment was made; zero if it does
// not end by itself. All in one word, so that it changes hands in one step.
const (
	leaseEndBits   = 38 // 8.7 years
	leaseEpochBits = 16
	leaseEndMask   = 1<<leaseEndBits - 1
	leaseEpochMask = 1<<leaseEpochBits - 1
	leaseLaneShift = leaseEndBits + leaseEpochBits
)

// A Lease is held by one process at most: the one that runs the timed jobs, or
// that fetches what all wait for. It belongs to the process, whichever goroutine
// took it.
//
// Crash rule: it is free as soon as its holder is reaped. Otherwise it stays with
// its holder, however slow that is, unless it was made with a time limit.
type Lease struct {
	segment *Segment
	holder  *word
	limit   time.Duration
}

// Lease returns the lease of that name. If limit is more than zero, it lasts for
// that long after it was taken or renewed, to the end of the millisecond: then a
// holder that hangs loses it, and two processes may believe they hold it, if the
// one that lost it does not look. Without a limit that cannot happen. Errors:
// [ErrOption] for a limit above a year, [ErrName], [ErrFull], [ErrMismatch],
// [ErrBusy].
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

// TryAcquire takes the lease if it is free and tells whether it did. It returns
// false if this process has it already.
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

// Renew starts the time limit anew. It returns false if this process has lost
// the lease, or never had it.
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

// Release gives the lease back. If this process does not have it nothing
// happens.
func (l *Lease) Release() {
	for old := l.holder.Load(); l.isOwn(old); old = l.holder.Load() {
		if l.holder.CompareAndSwap(old, 0) {
			return
		}
	}
}

// Held tells whether this process has the lease.
func (l *Lease) Held() bool {
	old := l.holder.Load()
	return l.isOwn(old) && l.isHeld(old)
}

// Holder returns the id of the process that has the lease, zero if it is free.
func (l *Lease) Holder() (pid int) {
	old := l.holder.Load()
	if !l.isHeld(old) {
		return 0
	}
	return int(l.segment.laneWord(leaseLane(old), lanePID).Load())
}

// Lead waits until this process gets the lease, calls run, gives the lease back
// when run returns, and returns run's error. In the meantime the lease is
// renewed. run's context ends with ctx, and, with the cause [ErrLost], when the
// lease is lost. If ctx ends before the lease is had, Lead returns its error.
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

// milliseconds returns the time that is so much later than now, as a lease's word
// tells it.
func (l *Lease) milliseconds(later time.Duration) int64 {
	return (l.segment.clock.now() - l.segment.created + int64(later)) / int64(time.Millisecond)
}

// word returns the word of a lease that this process takes now.
func (l *Lease) word() uint64 {
	end := int64(0)
	if l.limit > 0 {
		end = max(l.milliseconds(l.limit+time.Millisecond-1), 1) // rounded up
	}
	token := l.segment.token
	return token>>tokenLaneBits<<leaseLaneShift | token&leaseEpochMask<<leaseEndBits | uint64(end)&leaseEndMask
}

func leaseLane(held uint64) int { return int(held>>leaseLaneShift) - 1 }

// isOwn tells whether this process is the last holder, and was not declared dead
// by mistake.
func (l *Lease) isOwn(held uint64) bool {
	return leaseLane(held) == l.segment.lane && held>>leaseEndBits&leaseEpochMask == l.segment.token&leaseEpochMask && l.segment.isAlive(l.segment.token)
}

// isHeld tells whether the last holder is alive and its time has not passed.
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
