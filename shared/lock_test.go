package shared

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A caller waits a quarter of a second for a lock with a living owner, and gets it as
// soon as it is free or its owner is dead.
func TestLockWaits(t *testing.T) {
	for name, c := range map[string]struct {
		free                func(s, other *Segment, w *word) // after 100 ms; nil: never
		isLocked, wasStolen bool
	}{
		"held":     {},
		"released": {free: func(_, other *Segment, w *word) { other.unlock(w) }, isLocked: true},
		"dead":     {free: func(s, _ *Segment, _ *word) { s.Reap(999_999_999) }, isLocked: true, wasStolen: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLocal(t)
				other := attachAgain(t, s, 999_999_999)
				w := &s.words[headerLock]
				if _, isLocked := other.lock(w); !isLocked {
					t.Fatal("a free lock was not had")
				}
				if c.free != nil {
					time.AfterFunc(100*time.Millisecond, func() { c.free(s, other, w) })
				}
				began := time.Now()
				wasStolen, isLocked := s.lock(w)
				took := time.Since(began)
				if isLocked != c.isLocked || wasStolen != c.wasStolen {
					t.Errorf("locked %v, stolen %v", isLocked, wasStolen)
				}
				least := 250 * time.Millisecond
				if c.free != nil {
					least = 100 * time.Millisecond
				}
				if took < least || took > least+5*time.Millisecond {
					t.Errorf("it took %v, want %v", took, least)
				}
			})
		})
	}
}

// A process waits ten seconds for a place, and for nothing else.
func TestPlaceIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := errors.New("another")
		for _, c := range []struct {
			free time.Duration // when a place becomes free
			err  error         // the result then
			took time.Duration
			want error
		}{
			{0, nil, 0, nil},
			{0, other, 0, other},
			{5 * time.Second, nil, 5 * time.Second, nil},
			{5 * time.Second, other, 5 * time.Second, other},
			{time.Hour, nil, 10 * time.Second, ErrProcesses},
		} {
			began := time.Now()
			_, err := awaitPlace(func() (*Segment, error) {
				if time.Since(began) < c.free {
					return nil, ErrProcesses
				}
				return nil, c.err
			})
			if took := time.Since(began); took < c.took || took > c.took+50*time.Millisecond || err != c.want {
				t.Errorf("free after %v: %v after %v, want %v after %v", c.free, err, took, c.want, c.took)
			}
		}
	})
}
