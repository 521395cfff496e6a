package shared

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "write testdata/format.txt anew")

// When a master starts workers of a new version, programs of two versions are
// attached to one segment. So the words must not change, unless the version in
// kindVersions or layoutVersion is raised. Only then use -update.
func TestFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		const name = "testdata/format.txt"
		got := wordsOfFormat(t)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
		for i, line := range strings.Split(got, "\n") {
			if i >= len(want) || line != want[i] {
				t.Fatalf("line %d of the words is %q, want %q", i+1, line, want[min(i, len(want)-1)])
			}
		}
		if n := strings.Count(got, "\n") + 1; n != len(want) {
			t.Errorf("%d lines of words, want %d", n, len(want))
		}
	})
}

// wordsOfFormat lists the words of a segment in which each type is in use. No word
// depends on chance, the clock or the system.
func wordsOfFormat(t *testing.T) string {
	first := Must(New(Options{Size: 160 << 10, Processes: 2, Local: true}))
	first.words[headerID].Store(0x1d)
	first.words[headerCreator].Store(100)
	first.words[headerCreated].Store(1_000_000_000)
	for i := range uint64(4) {
		first.words[headerSecrets+i].Store((i + 1) * 0x9e37_79b9_7f4a_7c15)
	}
	first.laneWord(1, laneEpoch).Store(5)
	s := attachAgain(t, first, 101)
	s.laneWord(0, lanePID).Store(100)
	s.clock = sharedClock{time.Now(), 5_000_000_000 + 3<<38} // several eras have passed
	for _, of := range []*Segment{first, s} {
		for f := range fieldEnd {
			of.Page().Set(f, uint64(f))
		}
	}
	s.Page().Set(ProcessState, uint64(Stopped))
	openAll(t, s)
	useTimed(t, s)
	Must(s.Counter("counter")).Add(3)
	Must(s.Gauge("gauge")).Add(-4)
	for value := uint64(1); value < 1<<60; value *= 1000 {
		Must(s.Histogram("histogram")).Record(value)
	}
	Must(s.Flag("flag")).Set(true)
	_ = Must(s.Once("once")).Do(t.Context(), func() error { return nil })
	config, keys := Must(s.Config("config", 100)), Must(s.TicketKeys("keys"))
	for _, data := range []string{"the first version", "the second version", "the third"} {
		if err := config.Store([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.config.Store([]byte(strings.Repeat("key ", ticketKeyCount*ticketKeyBytes/4))); err != nil {
		t.Fatal(err)
	}
	keys.config.bufferOf(1)[0].Store(0)
	putBytes(keys.config.bufferOf(1)[1:], make([]byte, ticketKeyCount*ticketKeyBytes)) // the random keys
	topics := Must(s.Topics("topics"))
	topics.Add(1)
	topics.Add(topics.Interest("a room"))
	cache := Must(s.Cache("cache", CacheOptions{Size: 8 << 10, MaxEntry: 300}))
	limiter := Must(s.RateLimiter("limiter", RateLimit{Events: 10, Per: time.Second, Keys: 100}))
	s.lock(&s.words[headerLock])
	s.lock(&config.words[configLock])
	cache.lockSet(cache.set(0))
	limiter.lockPair(limiter.pair(1))
	var text strings.Builder
	for i := range s.words {
		if w := s.words[i].Load(); w != 0 {
			fmt.Fprintf(&text, "%d %x\n", i, w)
		}
	}
	return text.String()
}

// useTimed uses the types whose words contain times or hashes.
func useTimed(t *testing.T, s *Segment) {
	if !Must(s.Lease("lease", time.Minute)).TryAcquire() {
		t.Fatal("the lease was not acquired")
	}
	if !Must(s.Lease("for ever", 0)).TryAcquire() {
		t.Fatal("the lease was not acquired")
	}
	released := Must(s.Lease("released", 0))
	released.TryAcquire()
	released.Release()
	limiter := Must(s.RateLimiter("limiter", RateLimit{Events: 10, Per: time.Second, Keys: 100}))
	slow := Must(s.RateLimiter("slow", RateLimit{Events: 1, Per: time.Hour, Burst: 10, Keys: 5}))
	cache := Must(s.Cache("cache", CacheOptions{Size: 8 << 10, MaxEntry: 300}))
	for length := range 24 {
		key := []byte("a key of any length ....")[:length]
		limiter.AllowN(key, 1+length%2)
		slow.Allow(key[:length/4])
		if err := cache.Set(key, []byte(strings.Repeat("value ", length*2)), time.Duration(length%3)*time.Minute); err != nil {
			t.Fatal(err)
		}
		cache.Get(nil, key[:length/2])
	}
}
