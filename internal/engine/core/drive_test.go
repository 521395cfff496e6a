//go:build linux && (amd64 || arm64)

package core

import (
	"testing"
	"time"
)

// An upload of 4 MiB takes 256 reads, here in two turns of a worker. Beside fast handlers the
// worker yields after every 16 of them, or 32. Beside slow ones each yield takes a round of
// theirs, so there is one, and uploads of 4 MiB have none after it. A long turn is shared, too.
func TestYields(t *testing.T) {
	const readTime = 10 * time.Microsecond
	for _, c := range []struct {
		name         string
		turns, reads int
		round        time.Duration // what a yield takes
		want         int
	}{
		{"nothing else runs", 8, 128, 0, 64},
		{"64 handlers of 5 µs", 8, 128, 320 * time.Microsecond, 57},
		{"8 handlers of 2 ms", 8, 128, 16 * time.Millisecond, 9},
		{"64 handlers of 2 ms", 8, 128, 128 * time.Millisecond, 1},
		{"the machine stood still", 8, 128, time.Minute, 1},
		{"64 handlers of 2 ms, 128 MiB", 1, 8192, 128 * time.Millisecond, 11},
		{"the machine stood still, 128 MiB", 1, 8192, time.Minute, 9},
	} {
		var s spell
		yields, clock, held, longest := 0, time.Duration(0), time.Duration(0), time.Duration(0)
		now := func() int64 { return int64(clock) }
		gosched := func() {
			yields++
			held, clock = 0, clock+c.round
		}
		for range c.turns {
			var until int64
			held = 0
			for pass := 1; pass <= c.reads; pass++ {
				clock += readTime
				held += readTime
				longest = max(longest, held)
				if pass%yieldAfter == 0 {
					until = s.yield(until, now, gosched)
				}
			}
		}
		bound := min(c.round/yieldShare, longSpell) + 2*yieldAfter*readTime
		if yields != c.want || longest > bound {
			t.Errorf("%s: %d yields, want %d; a worker read for %v in a row, want %v at most", c.name, yields, c.want, longest, bound)
		}
	}
}

// When the handlers have become fast, workers yield after every 16 reads again.
func TestSpellEnds(t *testing.T) {
	clock, round, yields := time.Duration(0), time.Minute, 0
	now := func() int64 { return int64(clock) }
	gosched := func() {
		yields++
		clock += round
	}
	var s spell
	until := s.yield(0, now, gosched)
	round = 0
	for yields < 2 {
		clock += 100 * time.Microsecond
		until = s.yield(until, now, gosched)
	}
	if since := clock - time.Minute; since != longSpell {
		t.Errorf("the second yield was after %v, want %v", since, longSpell)
	}
	for range 3 {
		until = s.yield(until, now, gosched)
	}
	if yields != 5 {
		t.Errorf("%d yields, want 5", yields)
	}
}
