package clock

import (
	"context"
	"errors"
	"math"
	"os"
	"time"
)

// Bounds say when a call ends: with its context or at its deadline, whichever comes
// first. The zero value does not end. One goroutine at a time may change it.
type Bounds struct {
	Context  context.Context // nil: none
	Deadline int64           // Nanos; 0: none
	allowed  time.Duration   // Deadline minus the time when Allow set it
}

// Later returns the time d after now, a result of Nanos. A d without end, such as
// math.MaxInt64, leads to the last time that there is.
func Later(now int64, d time.Duration) int64 {
	if at := now + int64(d); at >= now || d < 0 {
		return at
	}
	return math.MaxInt64
}

// Allow limits the call to timeout from now, unless it ends earlier anyway. It
// returns the state for Restore.
func (b *Bounds) Allow(timeout time.Duration) (previous Bounds) {
	previous = *b
	if deadline := Later(Nanos(), timeout); b.Deadline == 0 || deadline < b.Deadline {
		b.Deadline, b.allowed = deadline, timeout
	}
	return previous
}

// Restore undoes Allow.
func (b *Bounds) Restore(previous Bounds) {
	b.Deadline, b.allowed = previous.Deadline, previous.allowed
}

// Restart sets the deadline again to the call's whole time from now.
func (b *Bounds) Restart() {
	if b.Deadline != 0 {
		b.Deadline = Later(Nanos(), b.allowed)
	}
}

// Err returns the reason why the call must end: the cause of its context, or
// os.ErrDeadlineExceeded. It is nil while the call may continue.
func (b *Bounds) Err() error {
	if b.HasEnded() {
		return context.Cause(b.Context)
	}
	if b.IsOver() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// IsOver reports whether the deadline has passed.
func (b *Bounds) IsOver() bool { return b.Deadline != 0 && Nanos() >= b.Deadline }

// IsBound reports whether the call has a deadline or a context that can end.
func (b *Bounds) IsBound() bool { return b.Deadline != 0 || b.Done() != nil }

// HasEnded reports whether the call's context has ended.
func (b *Bounds) HasEnded() bool { return b.Context != nil && b.Context.Err() != nil }

// Limit returns the earlier of the deadline and timeout from now, and 0 if there
// is neither.
func (b *Bounds) Limit(timeout time.Duration) int64 {
	if timeout <= 0 {
		return b.Deadline
	}
	at := Later(Nanos(), timeout)
	if b.Deadline != 0 {
		at = min(at, b.Deadline)
	}
	return at
}

// Done returns the channel that is closed when the call's context ends, or nil.
func (b *Bounds) Done() <-chan struct{} {
	if b.Context == nil {
		return nil
	}
	return b.Context.Done()
}

// Within returns a context that ends with the call, for functions without a
// deadline parameter.
func (b *Bounds) Within() (context.Context, context.CancelFunc) {
	ctx := b.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if b.Deadline == 0 {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, Deadline(b.Deadline))
}

// Left returns the remaining time of the call, at most limit. For limit and the
// result, 0 is no limit. If no time remains, the result is a nanosecond.
func (b *Bounds) Left(limit time.Duration) time.Duration {
	if b.Deadline == 0 {
		return limit
	}
	left := max(time.Duration(b.Deadline-Nanos()), 1)
	if limit > 0 {
		left = min(left, limit)
	}
	return left
}

// Past returns a deadline that has passed.
func Past() time.Time { return time.Unix(1, 0) }

// IsTimeout reports whether err is a time-out, such as an expired deadline of a
// connection.
func IsTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var timed interface { // a net.Error
		error
		Timeout() bool
		Temporary() bool
	}
	return errors.As(err, &timed) && timed.Timeout()
}
