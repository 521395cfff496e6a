package sluiceredis

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func (s *Store) lease(t *testing.T, limit time.Duration) *Lease {
	t.Helper()
	l, err := s.Lease("jobs", limit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLease(t *testing.T) {
	s := newServer(t)
	store, _ := s.store(Options{Timeout: 6 * time.Second})
	a, b := store.lease(t, time.Minute), store.lease(t, time.Minute)
	for i, isRight := range []bool{
		a.TryAcquire(), !a.TryAcquire(), a.Held(), !b.TryAcquire(), !b.Held(), !b.Renew(), a.Renew(), a.Held(),
	} {
		if !isRight {
			t.Errorf("step %d", i)
		}
	}
	b.Release() // it is not b's
	if a.Release(); a.Held() || a.Renew() || !b.TryAcquire() || !b.Held() || a.TryAcquire() {
		t.Error("it is not passed on")
	}
	// Redis forgets it: the holder learns of it when it renews.
	s.Kill()
	s.Start()
	for range patience { // connections that are broken
		b.Renew()
	}
	if b.Held() {
		t.Error("it is held, and Redis does not know it")
	}
	for !a.TryAcquire() {
		time.Sleep(time.Millisecond)
	}
	if _, err := store.Lease("jobs", time.Millisecond); !errors.Is(err, ErrOption) {
		t.Error(err)
	}
}

// A leader that cannot renew stops when its own time is over, not at the renewal after it.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{begin: time.Now()}
		s.awayUntil.Store(math.MaxInt64)
		const limit, own = 20 * time.Second, 19 * time.Second
		l := &Lease{store: s, limit: limit, until: time.Now().Add(own)}
		tick := time.NewTicker(limit / 4)
		defer tick.Stop()
		begin := time.Now()
		if isLost := l.keep(t.Context(), tick.C); !isLost || time.Since(begin) != own {
			t.Errorf("lost: %v, after %v", isLost, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.until = time.Now().Add(own)
		if l.keep(ctx, tick.C) {
			t.Error("the context has ended, and the lease is lost")
		}
	})
}

// One of many leads at a time, and all do in the end.
func TestLead(t *testing.T) {
	s := newServer(t)
	var leading, led atomic.Int64
	var machines sync.WaitGroup
	for range 3 {
		store, _ := s.store(Options{Timeout: 100 * time.Millisecond})
		l := store.lease(t, time.Second)
		machines.Go(func() {
			err := l.Lead(t.Context(), func(context.Context) error {
				if leading.Add(1) != 1 {
					t.Error("two lead")
				}
				time.Sleep(10 * time.Millisecond)
				leading.Add(-1)
				led.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	machines.Wait()
	if led.Load() != 3 {
		t.Errorf("%d have led", led.Load())
	}
}
