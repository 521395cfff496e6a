package shared

import (
	"context"
	"time"
)

const (
	onceIsDone = ^uint64(0) // no process's token
	pollPause  = 5 * time.Millisecond
)

// A Once does something once for all processes: a migration, the filling of a
// cache.
//
// Crash rule: if the process that is doing it dies, another one does it.
type Once struct {
	segment *Segment
	state   *word // zero, the token of who is doing it, or done
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

// Do calls f, unless a call of f, by any process, has returned nil before. If
// another goroutine or process is calling it, Do waits until that has returned
// nil, and tries itself if it has failed or died. It returns f's error, or ctx's
// if that ends the wait; ctx is not watched while f runs.
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

// Done tells whether it has been done.
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
