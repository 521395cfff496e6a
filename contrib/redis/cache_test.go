package sluiceredis

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

func (s *Store) cache(t *testing.T, maxEntry int) *Cache {
	t.Helper()
	c, err := s.Cache("pages", maxEntry)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What one machine sets, another one finds, until its time is over or it is deleted.
func TestCache(t *testing.T) {
	s := newServer(t)
	first, _ := s.store(patient)
	second, errs := s.store(patient)
	a, b := first.cache(t, 1000), second.cache(t, 1000)
	find := func(key, want string, isThere bool) {
		t.Helper()
		if value, isFound := b.Get([]byte("dst "), []byte(key)); string(value) != "dst "+want || isFound != isThere {
			t.Errorf("%q: %q, %v", key, value, isFound)
		}
	}
	set := func(key, value string, ttl time.Duration) {
		t.Helper()
		if err := a.Set([]byte(key), []byte(value), ttl); err != nil {
			t.Error(err)
		}
	}
	find("key", "", false)
	set("key", "value", time.Hour)
	find("key", "value", true)
	set("key", "", time.Hour)
	find("key", "", true)
	long := strings.Repeat("x", 500)
	set(long, "of a long key", time.Hour)
	find(long, "of a long key", true)
	find(long+"y", "", false)
	client := s.client()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 2 {
		t.Errorf("%q, %v", keys, err)
	}
	for _, key := range keys {
		if left, err := client.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > time.Hour || len(key) > 200 {
			t.Errorf("%q ends in %v, %v", key, left, err)
		}
	}
	if err := b.Delete([]byte("key")); err != nil {
		t.Error(err)
	}
	find("key", "", false)
	set("key", "for a moment", time.Nanosecond)
	for isFound := true; isFound; {
		_, isFound = b.Get(nil, []byte("key"))
	}
	if errs.Load() > 0 {
		t.Errorf("%d errors: a missing key is not an error", errs.Load())
	}
}

// Entries are bounded, also those of a machine with another bound.
func TestCacheBounds(t *testing.T) {
	store, _ := newServer(t).store(patient)
	large, small := store.cache(t, 1<<20), store.cache(t, 10)
	key := []byte("key")
	if err := large.Set(key, make([]byte, 1<<20-3), time.Hour); err != nil {
		t.Error(err)
	}
	if value, isFound := large.Get(nil, key); len(value) != 1<<20-3 || !isFound {
		t.Errorf("%d bytes, %v", len(value), isFound)
	}
	if value, isFound := small.Get(nil, key); value != nil || isFound {
		t.Errorf("%d bytes, %v", len(value), isFound)
	}
	if err := small.Set(key, []byte("12345678"), time.Hour); !errors.Is(err, shared.ErrTooLarge) {
		t.Error(err)
	}
	if _, isFound := large.Get(nil, key); isFound {
		t.Error("the old value remains")
	}
	for _, ttl := range []time.Duration{0, -1} {
		if err := small.Set(key, nil, ttl); !errors.Is(err, ErrOption) {
			t.Errorf("for %v: %v", ttl, err)
		}
	}
	if _, err := store.Cache("pages", 0); !errors.Is(err, ErrOption) {
		t.Error(err)
	}
}

// While Redis is away, nothing is found and nothing waits; then it serves again.
func TestCacheAway(t *testing.T) {
	s := newServer(t)
	store, errs := s.store(Options{Timeout: patient.Timeout, Pause: 10 * time.Millisecond})
	c, key := store.cache(t, 1000), []byte("key")
	if err := c.Set(key, key, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	var clients sync.WaitGroup
	begin := time.Now()
	for range 4 {
		clients.Go(func() {
			for range 1000 {
				if value, isFound := c.Get(key, key); !bytes.Equal(value, key) || isFound {
					t.Errorf("%q, %v", value, isFound)
				}
				if err := c.Set(key, key, time.Hour); err == nil {
					t.Error("it was set")
				}
			}
		})
	}
	clients.Wait()
	if asked, most := errs.Load(), patience+4+int64(time.Since(begin)/(10*time.Millisecond)); asked > most {
		t.Errorf("Redis was asked in vain %d times, want at most %d", asked, most)
	}
	s.Start()
	for c.Set(key, key, time.Hour) != nil {
		time.Sleep(time.Millisecond)
	}
	if value, isFound := c.Get(nil, key); !bytes.Equal(value, key) || !isFound {
		t.Errorf("%q, %v", value, isFound)
	}
}

// A key, which a client may choose, is not one of another cache or limiter.
func TestNamesAndKeys(t *testing.T) {
	store, _ := newServer(t).store(patient)
	for _, name := range []string{"pages:en", ":"} { // the key "x" would be "en:x" of pages
		if _, err := store.Cache(name, 1000); !errors.Is(err, ErrOption) {
			t.Errorf("cache %q: %v", name, err)
		}
		if _, err := store.RateLimiter(name, RateLimit{Events: 1, Per: time.Minute}); !errors.Is(err, ErrOption) {
			t.Errorf("limiter %q: %v", name, err)
		}
	}
}
