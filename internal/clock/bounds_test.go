package clock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestBoundsTime: the time of a call: what each question says before and after its deadline.
func TestBoundsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Bounds
		if c.IsBound() || c.Err() != nil || c.Left(0) != 0 || c.Left(time.Second) != time.Second || c.Limit(0) != 0 || c.Limit(time.Second) == 0 || c.Limit(1) == 0 {
			t.Error("a call without a deadline has one")
		}
		c.Restart()
		if c.IsBound() {
			t.Error("restart made a deadline")
		}
		none := c.Allow(10 * time.Second)
		deadline := c.Deadline
		if longer := c.Allow(time.Minute); c.Deadline != deadline || c.allowed != 10*time.Second || longer.Deadline != deadline {
			t.Error("a longer time-out moved the deadline")
		}
		time.Sleep(4 * time.Second)
		if !c.IsBound() || c.Err() != nil || c.Left(0) != 6*time.Second || c.Left(1) != 1 || c.Left(time.Second) != time.Second || c.Left(time.Minute) != 6*time.Second {
			t.Errorf("after 4 of 10 s: %v, %v left", c.Err(), c.Left(0))
		}
		if c.Limit(0) != deadline || c.Limit(time.Minute) != deadline || c.Limit(time.Second) != deadline-int64(5*time.Second) {
			t.Error("limit is not the earlier of both")
		}
		ten := c.Allow(time.Second)
		if c.Left(0) != time.Second {
			t.Errorf("%v left of 1 s", c.Left(0))
		}
		time.Sleep(time.Second)
		if c.Err() != os.ErrDeadlineExceeded || c.Left(0) != 1 {
			t.Errorf("after 1 of 1 s: %v, %v left", c.Err(), c.Left(0))
		}
		if c.Restart(); c.Left(0) != time.Second || c.Err() != nil {
			t.Errorf("restarted: %v left", c.Left(0))
		}
		if c.Restore(ten); c.Deadline != deadline || c.allowed != 10*time.Second {
			t.Error("restore did not bring the call's own deadline back")
		}
		if c.Restore(none); c.IsBound() {
			t.Error("restore did not bring back that there is none")
		}
	})
}

// TestBoundsContext: a context that ends tells why.
func TestBoundsContext(t *testing.T) {
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	b := Bounds{Context: ctx}
	within, stop := b.Within()
	if stop(); within != ctx || !b.IsBound() || b.HasEnded() || b.Err() != nil {
		t.Error("it has ended before")
	}
	cancel(why)
	<-b.Done()
	if !b.HasEnded() || b.Err() != why {
		t.Errorf("ended: %v", b.Err())
	}
	b = Bounds{Deadline: Nanos() + int64(time.Hour)}
	within, stop = b.Within()
	defer stop()
	if at, ok := within.Deadline(); !ok || !at.Equal(Deadline(b.Deadline)) || b.Done() != nil {
		t.Errorf("a context until %v", at)
	}
}

// timeout is an error with a part of a net.Error.
type timeout struct{ error }

func (timeout) Timeout() bool { return true }

// TestIsTimeout: errors of connections count, those that only have the method do not.
func TestIsTimeout(t *testing.T) {
	for err, want := range map[error]bool{
		os.ErrDeadlineExceeded: true, &net.DNSError{IsTimeout: true}: true, &net.DNSError{}: false,
		fmt.Errorf("read: %w", os.ErrDeadlineExceeded): true, timeout{}: false, os.ErrClosed: false,
	} {
		if IsTimeout(err) != want {
			t.Errorf("%T: %v, want %v", err, !want, want)
		}
	}
	if !Past().Before(time.Now()) || Past().IsZero() {
		t.Errorf("%v is not past", Past())
	}
}
