package shared

import (
	"context"
	"time"
)

const (
	onceIsDone = ^uint64(0) // no process's token
	pollPause  = 5 * time.Millisecond
)

// A Once runs a function once for all processes, for example a migration or the
// filling of a cache.
//
// Crash rule: if a process dies while it runs the function, another one runs it.
type Once struct {
	segment *Segment
	state   *word // zero, the token of the process that runs it, or onceIsDone
}

// Once returns the once of that name. Errors: [ErrName], [ErrFull],
// [ErrMismatch], [ErrBusy].
func (s *Segment) Once(name string) (*Once, error) {
	words, err := s.open(name, kindOnce, parameters{}, lineWords)
	if err != nil {
		return nil, err
	}
	return &Once{s, &words[0]}, nil
}

// Do calls f, unless a call in any process has already returned nil. While another
// goroutine or process runs its function, Do waits. If that call returns nil, so
// does Do; if it fails or its process dies, Do calls f. Do returns f's error, or
// ctx's cause if ctx ends the wait. It does not watch ctx while f runs.
func (o *Once) Do(ctx context.Context, f func() error) error {
	for {
		owner := o.state.Load()
		switch {
		case owner == onceIsDone:
			return nil
		case owner == 0 || !o.segment.isAlive(owner):
			if o.state.CompareAndSwap(owner, o.segment.token) {
				return o.run(f)
			}
		default:
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
}

func (o *Once) run(f func() error) (err error) {
	outcome := uint64(0) // also if f panics
	defer func() { o.state.CompareAndSwap(o.segment.token, outcome) }()
	if err = f(); err == nil {
		outcome = onceIsDone
	}
	return err
}

// Done reports whether a call has returned nil.
func (o *Once) Done() bool { return o.state.Load() == onceIsDone }

// pause waits a moment, or returns ctx's error.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollPause):
		return ctx.Err()
	}
}
