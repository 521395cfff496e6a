package sluiceredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/shared"
)

var _ middleware.Limiter = (*RateLimiter)(nil)

func (s *Store) limiter(t *testing.T, limit RateLimit) *RateLimiter {
	t.Helper()
	l, err := s.RateLimiter("limit", limit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Four machines together get exactly one burst.
func TestLimitOverMachines(t *testing.T) {
	s := newServer(t)
	var admitted atomic.Int64
	var machines sync.WaitGroup
	for range 4 {
		store, errs := s.store(patient)
		l := store.limiter(t, RateLimit{Events: 100, Per: time.Hour})
		machines.Go(func() {
			for range 100 {
				if l.Take([]byte("key")).IsAllowed {
					admitted.Add(1)
				}
			}
			if errs.Load() > 0 {
				t.Error("Redis has failed")
			}
		})
	}
	machines.Wait()
	if n := admitted.Load(); n != 100 {
		t.Errorf("%d events of 100 are admitted", n)
	}
}

func TestQuota(t *testing.T) {
	s := newServer(t)
	store, _ := s.store(patient)
	l := store.limiter(t, RateLimit{Events: 3, Per: time.Hour})
	if burst, refill := l.Limit(); burst != 3 || refill != time.Hour {
		t.Errorf("%d in %v", burst, refill)
	}
	near := func(d, want time.Duration) bool { return d <= want && d >= want-5*time.Minute }
	for i, want := range []shared.Quota{
		{IsAllowed: true, Left: 2, Reset: 20 * time.Minute},
		{IsAllowed: true, Left: 1, Reset: 40 * time.Minute},
		{IsAllowed: true, Left: 0, Reset: time.Hour},
		{RetryAfter: 20 * time.Minute, Reset: time.Hour},
	} {
		q := l.Take([]byte("key"))
		if q.IsAllowed != want.IsAllowed || q.Left != want.Left || !near(q.RetryAfter, want.RetryAfter) || !near(q.Reset, want.Reset) {
			t.Errorf("request %d: %+v, want %+v", i, q, want)
		}
	}
	// A machine whose limit is lower meets what others have admitted.
	if q := store.limiter(t, RateLimit{Events: 1, Per: 20 * time.Minute}).Take([]byte("key")); q.IsAllowed || q.Left != 0 || q.RetryAfter < 50*time.Minute {
		t.Errorf("%+v", q)
	}
	// Long keys are different, and none is long in Redis. Each ends by itself.
	for i := range 3 {
		if !l.Take([]byte(strings.Repeat("x", 10_000) + fmt.Sprint(i))).IsAllowed {
			t.Errorf("key %d shares a limit", i)
		}
	}
	client := s.client()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 4 {
		t.Errorf("%q, %v", keys, err)
	}
	for _, key := range keys {
		if left, err := client.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > time.Hour || len(key) > 200 {
			t.Errorf("%q ends in %v, %v", key, left, err)
		}
	}
}

// What refills comes back at the pace of the limit.
func TestRefill(t *testing.T) {
	store, _ := newServer(t).store(patient)
	l := store.limiter(t, RateLimit{Events: 1000, Per: 10 * time.Second, Burst: 1})
	for range 5 {
		for q := l.Take([]byte("key")); !q.IsAllowed; q = l.Take([]byte("key")) {
			if q.RetryAfter <= 0 || q.RetryAfter > 10*time.Millisecond {
				t.Fatalf("%+v", q)
			}
			time.Sleep(q.RetryAfter)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Timeout: -1}, {Pause: -1}} {
		if _, err := New(&redis.UniversalOptions{Addrs: []string{"x:1"}}, o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(&redis.UniversalOptions{}, Options{}); !errors.Is(err, ErrOption) {
		t.Error(err)
	}
	store, err := New(&redis.UniversalOptions{Addrs: []string{"x:1"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, l := range []RateLimit{
		{}, {Events: 1}, {Per: time.Second}, {Events: -1, Per: time.Second}, {Events: 1, Per: -time.Second}, {Events: 1, Per: time.Second, Burst: -1},
		{Events: 1001, Per: time.Millisecond}, {Events: 1, Per: 10_000 * time.Hour}, {Events: 1, Per: time.Hour, Burst: 10_000},
	} {
		if _, err := store.RateLimiter("x", l); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// A connection that is never made bounds no request either.
func TestDialHangs(t *testing.T) {
	store, err := New(&redis.UniversalOptions{Addrs: []string{"x:1"}, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, Options{Pause: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	l := store.limiter(t, RateLimit{Events: 1, Per: time.Second, Away: Admit})
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if !l.Take([]byte("key")).IsAllowed {
				t.Error("refused")
			}
		})
	}
	all.Wait()
}

// One that is refused is not made again for the same request.
func TestDialOnce(t *testing.T) {
	var dials atomic.Int64
	store, err := New(&redis.UniversalOptions{Addrs: []string{"x:1"}, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("refused")
	}}, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if l := store.limiter(t, RateLimit{Events: 1, Per: time.Second}); l.Take([]byte("key")).IsAllowed || dials.Load() != 1 {
		t.Errorf("%d connections were dialed", dials.Load())
	}
}

// After Redis is back, it decides again.
func TestBack(t *testing.T) {
	s := newServer(t)
	store, _ := s.store(Options{Timeout: time.Second, Pause: 10 * time.Millisecond})
	l := store.limiter(t, RateLimit{Events: 1, Per: time.Hour, Away: Admit})
	for round := range 2 {
		key := []byte(fmt.Sprint(round))
		if q := l.Take(key); !q.IsAllowed || q.Reset == 0 {
			t.Errorf("%+v is not of Redis", q)
		}
		s.Kill()
		for range patience + 1 {
			if q := l.Take(key); q != (shared.Quota{IsAllowed: true}) {
				t.Errorf("%+v is not of Admit", q)
			}
		}
		s.Start()
		for l.Take([]byte("probe")).Reset == 0 { // until it is asked, and answers
			time.Sleep(time.Millisecond)
		}
	}
}
