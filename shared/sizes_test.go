package shared

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// The sizes of a segment follow from its options as documented.
func TestSegmentSizes(t *testing.T) {
	processes := min(max(256, 4*runtime.NumCPU()+8), 1023)
	for _, c := range []struct {
		options        Options
		size           int64 // zero is an error
		lanes, entries int
	}{
		{Options{}, max(64<<20, int64(processes)<<18), processes, max(4096, processes<<4)},
		{Options{Processes: 256}, 64 << 20, 256, 4096},
		{Options{Processes: 257}, 257 << 18, 257, 257 << 4},
		{Options{Processes: 1023}, 1023 << 18, 1023, 1023 << 4},
		{Options{Processes: 1024}, 0, 0, 0},
		{Options{Processes: 1, Size: 64<<10 - 1}, 0, 0, 0},
		{Options{Processes: 1, Size: 64 << 10}, 64 << 10, 1, 64},
		{Options{Processes: 1, Size: 64<<10 + 1}, 68 << 10, 1, 64},
		{Options{Processes: 1, Size: 68<<10 - 1}, 68 << 10, 1, 64},
		{Options{Processes: 10, Size: 64 << 10}, 64 << 10, 10, 64},
		{Options{Processes: 11, Size: 64 << 10}, 0, 0, 0}, // the tables alone take all of it
		{Options{Processes: 8, Size: 64 << 14}, 1 << 20, 8, 64},
		{Options{Processes: 8, Size: 65 << 14}, 65 << 14, 8, 65},
		{Options{Processes: 8, Size: 16<<30 + 1<<14}, 16<<30 + 1<<14, 8, 1 << 20},
		{Options{Processes: 8, Size: 1 << 40}, 1 << 40, 8, 1 << 20},
		{Options{Processes: 8, Size: 1<<40 + 1}, 0, 0, 0},
	} {
		if int64(int(c.size)) != c.size {
			c.size, c.lanes, c.entries = 0, 0, 0 // not on 32 bits
		}
		l, err := c.options.layout()
		if errors.Is(err, ErrOption) != (c.size == 0) || int64(l.size)*wordBytes != c.size || l.lanes != c.lanes || l.entries != c.entries {
			t.Errorf("%+v: %d bytes, %d processes, %d entries, %v", c.options, int64(l.size)*wordBytes, l.lanes, l.entries, err)
		}
	}
}

// A segment may consist of tables only, and have the maximum number of entries of
// each table.
func TestExtremeLayouts(t *testing.T) {
	for _, l := range []layout{
		newLayout(8192, 11, 64), newLayout(1<<12, 2, 1), newLayout(1<<20, 1023, 1), newLayout(1<<25+1<<12, 2, 1<<20),
	} {
		s, err := begin(&Segment{layout: l, words: ownWords(l.size)})
		if err != nil {
			t.Errorf("%+v: %v", l, err)
			continue
		}
		if _, err := attachWords(s.words); err != nil {
			t.Errorf("%+v is not a segment: %v", l, err)
		}
	}
	if l := newLayout(8192, 11, 64); l.data != l.size {
		t.Errorf("%+v has room for data", l)
	}
}

// The documented defaults are those of zero options: a process that sets them
// explicitly gets the same value.
func TestDefaultSizes(t *testing.T) {
	s := Must(New(Options{Local: true}))
	perSecond := RateLimit{Events: 5, Per: time.Second}
	limiter := Must(s.RateLimiter("limiter", perSecond))
	perSecond.Keys = 65_536
	Must(s.RateLimiter("limiter", perSecond))
	if limiter.burst != 5 {
		t.Errorf("a burst of %d, want as many as Events", limiter.burst)
	}
	Must(s.Cache("cache", CacheOptions{}))
	Must(s.Cache("cache", CacheOptions{Size: 8 << 20, MaxEntry: 1000}))
	for _, options := range []CacheOptions{{Size: 9 << 20}, {MaxEntry: 1001}} {
		if _, err := s.Cache("cache", options); !errors.Is(err, ErrMismatch) {
			t.Errorf("a cache with %+v: %v", options, err)
		}
	}
	bytes := map[string]int64{}
	for _, e := range s.Entries() {
		bytes[e.Name] = e.Bytes
	}
	if bytes["limiter"] != 16*65_536 || bytes["cache"] > 8<<20 || bytes["cache"] < 8<<20-4096 {
		t.Errorf("bytes: %v", bytes)
	}
}

// The documented maximums hold.
func TestGreatestSizes(t *testing.T) {
	s := newLocal(t)
	limiter := func(limit RateLimit) func() error {
		limit.Events, limit.Per = max(limit.Events, 1), time.Millisecond
		return func() error { _, err := s.RateLimiter(fmt.Sprint(limit), limit); return err }
	}
	cache := func(options CacheOptions) func() error {
		return func() error { _, err := s.Cache("cache", options); return err }
	}
	config := func(size int) func() error {
		return func() error { _, err := s.Config("config", size); return err }
	}
	lease := func(limit time.Duration) func() error {
		return func() error { _, err := s.Lease("lease", limit); return err }
	}
	for _, c := range []struct {
		name          string
		most, tooMany func() error
		want          error // of the maximum
	}{
		{"burst", limiter(RateLimit{Burst: 1 << 20, Keys: 1}), limiter(RateLimit{Burst: 1<<20 + 1, Keys: 1}), nil},
		{"keys", limiter(RateLimit{Keys: 1 << 28}), limiter(RateLimit{Keys: 1<<28 + 1}), ErrFull},
		{"events", limiter(RateLimit{Events: 1_000_000, Keys: 1}), limiter(RateLimit{Events: 1_000_001, Keys: 1}), nil},
		{"cache", cache(CacheOptions{Size: min(1<<36, int64(^uint(0)>>1))}), cache(CacheOptions{Size: 1<<36 + 1}), ErrFull},
		{"entry", cache(CacheOptions{Size: 1, MaxEntry: 1 << 20}), cache(CacheOptions{Size: 1, MaxEntry: 1<<20 + 1}), nil},
		{"config", config(1 << 28), config(1<<28 + 1), ErrFull},
		{"lease", lease(366 * 24 * time.Hour), lease(366*24*time.Hour + 1), nil},
	} {
		if err := c.most(); !errors.Is(err, c.want) && err != c.want {
			t.Errorf("the greatest %s: %v, want %v", c.name, err, c.want)
		}
		if err := c.tooMany(); !errors.Is(err, ErrOption) {
			t.Errorf("one more than the greatest %s: %v", c.name, err)
		}
	}
	// A burst has a maximum, even if the limit allows more events at once.
	if l, err := s.RateLimiter("fast", RateLimit{Events: 1<<20 + 1, Per: time.Second, Keys: 1}); err != nil || l.burst != 1<<20 {
		t.Errorf("%+v, %v", l, err)
	}
}

// Memory that was never touched does not count as Go's.
func TestSegmentIsMapped(t *testing.T) {
	if !canShare || strconv.IntSize == 32 {
		t.Skip("nothing is mapped here, or addresses are few after the other tests")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Must(New(Options{Size: 256 << 20, Local: true}))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 128<<20 {
		t.Errorf("a segment allocated %d MiB", n>>20)
	}
}
