package sluice

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// The time of a call: what each question says before and after its deadline.
func TestCallsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clientCall
		if c.isBound() || c.err() != nil || c.left(0) != 0 || c.left(time.Second) != time.Second || c.limit(0) != 0 || c.limit(time.Second) == 0 {
			t.Error("a call without a deadline has one")
		}
		c.restart()
		if c.isBound() {
			t.Error("restart made a deadline")
		}
		none := c.allow(10 * time.Second)
		deadline := c.deadline
		if longer := c.allow(time.Minute); c.deadline != deadline || c.allowed != 10*time.Second || longer.deadline != deadline {
			t.Error("a longer time-out moved the deadline")
		}
		time.Sleep(4 * time.Second)
		if !c.isBound() || c.err() != nil || c.left(0) != 6*time.Second || c.left(time.Second) != time.Second || c.left(time.Minute) != 6*time.Second {
			t.Errorf("after 4 of 10 s: %v, %v left", c.err(), c.left(0))
		}
		if c.limit(0) != deadline || c.limit(time.Minute) != deadline || c.limit(time.Second) != deadline-int64(5*time.Second) {
			t.Error("limit is not the earlier of both")
		}
		ten := c.allow(time.Second)
		if c.left(0) != time.Second {
			t.Errorf("%v left of 1 s", c.left(0))
		}
		time.Sleep(time.Second)
		if c.err() != ErrTimeout || c.left(0) != 1 || c.explain(io.EOF) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("after 1 of 1 s: %v, %v left, %v", c.err(), c.left(0), c.explain(io.EOF))
		}
		if c.restart(); c.left(0) != time.Second || c.err() != nil {
			t.Errorf("restarted: %v left", c.left(0))
		}
		if c.restore(ten); c.deadline != deadline || c.allowed != 10*time.Second || c.explain(io.EOF) != io.EOF || c.explain(os.ErrDeadlineExceeded) != ErrTimeout {
			t.Error("restore did not bring the call's own deadline back")
		}
		if c.restore(none); c.isBound() {
			t.Error("restore did not bring back that there is none")
		}
	})
}

// A context that ends tells why, and where the call was.
func TestCallsContext(t *testing.T) {
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := clientCall{ctx: ctx, phase: PhaseDial}
	if !c.isBound() || c.hasEnded() || c.err() != nil || c.explain(io.EOF) != io.EOF {
		t.Error("it has ended before")
	}
	cancel(why)
	<-c.done()
	for _, err := range []error{c.err(), c.explain(io.EOF)} {
		var phase *PhaseError
		if !errors.As(err, &phase) || phase.Phase != PhaseDial || !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}
	own := &PhaseError{Phase: PhaseDNS, Err: why}
	if got := c.explain(own); got != own {
		t.Errorf("the dialer's error became %v", got)
	}
}
