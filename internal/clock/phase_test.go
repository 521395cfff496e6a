package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPhaseError(t *testing.T) {
	if err := EndOf(nil, PhaseDial); err != nil { //nolint:staticcheck // callers without a context have none
		t.Errorf("no context: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := EndOf(ctx, PhaseDial); err != nil {
		t.Errorf("before its end: %v", err)
	}
	cause := errors.New("cause")
	cancel(cause)
	var ended *PhaseError
	if err := EndOf(ctx, PhaseTLS); !errors.As(err, &ended) || ended.Phase != PhaseTLS || !errors.Is(err, cause) || ended.Timeout() || err.Error() != "sluice: TLS handshake: cause" {
		t.Errorf("after its end: %v", err)
	}
	if late := (&PhaseError{Err: context.DeadlineExceeded}); !late.Timeout() || late.Error() != "sluice: waiting for a connection: context deadline exceeded" {
		t.Errorf("%v is no time-out", late)
	}
	if Phase(200).String() != "unknown phase" {
		t.Error(Phase(200))
	}
}

// TestTimersAreReused: a timer of the pool fires after its new time only.
func TestTimersAreReused(t *testing.T) {
	for range 100 {
		timer := AcquireTimer(time.Nanosecond)
		ReleaseTimer(timer)
		if timer = AcquireTimer(time.Hour); len(timer.C) != 0 {
			t.Fatal("it fires for an earlier use")
		}
		ReleaseTimer(timer)
	}
	timer := AcquireTimer(time.Nanosecond)
	<-timer.C
	ReleaseTimer(timer)
}

func TestCoarse(t *testing.T) {
	if late := time.Since(Coarse()); late < -time.Second || late > 10*time.Second {
		t.Errorf("it is %v late", late)
	}
}

func TestLaterThanThereIs(t *testing.T) {
	const most = 1<<63 - 1
	for _, c := range [][3]int64{{5, 7, 12}, {5, -2, 3}, {5, most, most}} {
		if got := Later(c[0], time.Duration(c[1])); got != c[2] {
			t.Errorf("%d and %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
