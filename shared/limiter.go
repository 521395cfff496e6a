package shared

import (
	"fmt"
	"math/bits"
	"time"
)

// A RateLimit says how many events are allowed for each key.
type RateLimit struct {
	// Events is the number of events allowed in each Per, spread evenly. Events and
	// Per must be positive. The maximum is one event per nanosecond.
	Events int
	// Per is the time for Events.
	Per time.Duration
	// Burst is how many events are allowed at once after a pause. Zero means
	// Events, but at most 1<<20, which is the maximum.
	Burst int
	// Keys is how many keys are expected to be in use at the same time. A key is in
	// use until its full burst is available again. Each takes 16 bytes. Zero is
	// 65,536; the maximum is 1<<28.
	Keys int
	// AdmitWhenFull decides about a new key when the table has no free place for it
	// because too many keys are in use. If false, its events are refused; if true,
	// they are admitted without being counted.
	AdmitWhenFull bool
}

// A rate limiter's set is one cache line: the lock for adding a key, the era in
// which the set was last cleaned, and a word for each of six keys. The word's upper
// bits hold a part of the key's hash. The lower bits hold the time, in ticks, at
// which the full burst is available again (GCRA's theoretical arrival time, TAT).
const (
	limiterLock = 0
	limiterEra  = 1
	limiterWays = 2

	tickBits = 40
	tickMask = 1<<tickBits - 1
	// An era is a quarter of the range of a word's time. A word is compared with
	// the clock only in the era in which it was written and in the next one.
	// Otherwise, after a wraparound, a past time would look like a future one.
	eraBits = tickBits - 2
	// It takes at most half an era until a full burst is available again.
	windowBits = eraBits - 1

	limiterMaxBurst = 1 << 20
	limiterMaxKeys  = 1 << 28
)

// A RateLimiter admits at most Burst events at once and Events in each Per, for
// each key, over all processes together. It never admits more, except with
// [RateLimit.AdmitWhenFull]. When two keys look the same (1 pair in 10^7), they
// share a limit; when the table is full, a new key is refused.
//
// Processes may use different limits, for instance during a rolling restart; each
// process applies its own. Keys must be the same, and so must the resolution of
// the time in which a full burst becomes available; it changes at 68 s, 4.8 h and
// 52 days. Otherwise RateLimiter returns [ErrMismatch].
//
// Crash rule: events that were admitted remain counted; nothing needs repair.
type RateLimiter struct {
	segment       *Segment
	sets          []word
	setMask       uint64
	interval      int64 // ticks for each event
	window        int64 // ticks for a burst
	burst         int
	shift         uint // from nanoseconds to ticks
	admitWhenFull bool
}

// RateLimiter returns the rate limiter of that name. Errors: [ErrOption],
// [ErrName], [ErrFull], [ErrMismatch], [ErrBusy].
func (s *Segment) RateLimiter(name string, limit RateLimit) (*RateLimiter, error) {
	if limit.Burst == 0 {
		limit.Burst = min(limit.Events, limiterMaxBurst)
	}
	if limit.Keys == 0 {
		limit.Keys = 1 << 16
	}
	if limit.Events < 1 || limit.Per < time.Duration(limit.Events) || limit.Burst < 1 || limit.Burst > limiterMaxBurst || limit.Keys < 1 || limit.Keys > limiterMaxKeys {
		return nil, fmt.Errorf("%w: rate limiter %q with %+v", ErrOption, name, limit)
	}
	l := &RateLimiter{segment: s, burst: limit.Burst, admitWhenFull: limit.AdmitWhenFull}
	if !l.setPace(limit) {
		return nil, fmt.Errorf("%w: rate limiter %q: a burst of %d takes too long at %d in %v", ErrOption, name, limit.Burst, limit.Events, limit.Per)
	}
	// Four expected keys for the six places of a set. Each key can be in either of
	// two sets, so the sets fill up evenly.
	sets := 1 << bits.Len(uint((limit.Keys+3)/4-1))
	words, err := s.open(name, kindRateLimiter, parameters{uint64(sets), uint64(l.shift)}, sets*lineWords)
	if err != nil {
		return nil, err
	}
	l.sets, l.setMask = words, uint64(sets-1)
	return l, nil
}

// setPace chooses the finest of four resolutions that can express a burst's time.
// It returns false if there is none.
func (l *RateLimiter) setPace(limit RateLimit) bool {
	for ; l.shift <= 24; l.shift += 8 {
		// Rounded up: too slow rather than too fast.
		perTick := uint64(limit.Events) << l.shift
		if perTick>>l.shift != uint64(limit.Events) {
			return false
		}
		l.interval = int64((uint64(limit.Per)-1)/perTick + 1)
		high, window := bits.Mul64(uint64(l.interval), uint64(l.burst))
		if high == 0 && window < 1<<(windowBits-1) {
			l.window = int64(window)
			return true
		}
	}
	return false
}

// Never is the retryAfter of a request for more events than Burst, which is never
// allowed.
const Never time.Duration = -1

// Allow asks for one event of key; see [RateLimiter.AllowN].
func (l *RateLimiter) Allow(key []byte) (isAllowed bool, retryAfter time.Duration) {
	return l.AllowAt(key, 1, l.segment.clock.now())
}

// AllowN asks for n events of key at once; an n below 1 counts as 1. If they are
// not allowed, nothing is counted. retryAfter is then the time until they would be
// allowed without other requests in the meantime; [Never] if n is more than Burst.
func (l *RateLimiter) AllowN(key []byte, n int) (isAllowed bool, retryAfter time.Duration) {
	return l.AllowAt(key, n, l.segment.clock.now())
}

// AllowAt is [RateLimiter.AllowN] with a time that the caller has read from
// [Segment.Now]. One reading may be used for several calls. All processes must use
// the same clock, and their times must not differ by hours.
func (l *RateLimiter) AllowAt(key []byte, n int, now int64) (isAllowed bool, retryAfter time.Duration) {
	if n > l.burst {
		return false, Never
	}
	d := l.decide(key, n, now)
	return d.isAllowed, l.duration(d.wait)
}

// A Quota is what a RateLimiter knows of a key after it was asked for an event.
type Quota struct {
	// IsAllowed reports whether the event is admitted, and counted.
	IsAllowed bool
	// RetryAfter is the time until an event would be admitted, zero if IsAllowed.
	RetryAfter time.Duration
	// Left is how many more events would be admitted now.
	Left int
	// Reset is the time until all of Burst would be admitted.
	Reset time.Duration
}

// Take is [RateLimiter.Allow] with more of an answer. A new key that [RateLimit.AdmitWhenFull]
// admits has its whole burst left, and one that is refused because the table is full nothing.
func (l *RateLimiter) Take(key []byte) Quota {
	d := l.decide(key, 1, l.segment.clock.now())
	return Quota{
		IsAllowed: d.isAllowed, RetryAfter: l.duration(d.wait),
		Left: int(max(l.window-d.left, 0) / l.interval), Reset: l.duration(d.left),
	}
}

// Limit returns Burst, and the time after which all of it is available again.
func (l *RateLimiter) Limit() (burst int, refill time.Duration) {
	return l.burst, l.duration(l.window)
}

func (l *RateLimiter) duration(ticks int64) time.Duration { return time.Duration(ticks << l.shift) }

// A decision is what becomes of an arrival. The times are in ticks.
type decision struct {
	isAllowed bool
	wait      int64 // until it would be admitted; zero if isAllowed
	left      int64 // until a full burst is available
}

// decide asks for n events of key, which are at most a burst.
func (l *RateLimiter) decide(key []byte, n int, now int64) decision {
	cost := l.interval * int64(max(n, 1))
	hash := l.segment.hasher.sum(key)
	a := arrival{tag: max(hash>>tickBits, 1), ticks: now >> l.shift, cost: cost}
	p := l.pair(hash)
	for _, set := range [2]*limiterSet{p.first, p.second} {
		if set[limiterEra].Load() < era(a.ticks) {
			break // the set must be cleaned first
		}
		for way := set.find(a.tag); way != nil; way = set.find(a.tag) {
			if d, isLost := l.charge(way, a); !isLost {
				return d
			}
		}
	}
	return l.admitLocked(p, a)
}

// An arrival is a request to admit events of one key.
type arrival struct {
	tag   uint64 // the part of the key's hash that is kept
	ticks int64  // now
	cost  int64  // in ticks
}

// A limiterSet holds the words of up to six keys.
type limiterSet [lineWords]word

// A pair is the two sets in which a key may have its word. They may be the same.
type pair struct{ first, second *limiterSet }

// pair returns the sets of a key, in the order in which they are to be locked.
func (l *RateLimiter) pair(hash uint64) pair {
	low, high := hash&l.setMask, bits.RotateLeft64(hash, 32)*0x9e37_79b9_7f4a_7c15>>20&l.setMask
	if low > high {
		low, high = high, low
	}
	return pair{l.set(low), l.set(high)}
}

func (l *RateLimiter) set(index uint64) *limiterSet {
	return (*limiterSet)(l.sets[int(index)*lineWords:])
}

// find returns the word of a key, nil if it has none.
func (p pair) find(tag uint64) *word {
	if way := p.first.find(tag); way != nil {
		return way
	}
	return p.second.find(tag)
}

func (set *limiterSet) find(tag uint64) *word {
	for i := limiterWays; i < lineWords; i++ {
		if set[i].Load()>>tickBits == tag {
			return &set[i]
		}
	}
	return nil
}

// ticksLeft returns the ticks from now until the time in a way's word; zero if it
// has passed. A word's time is at most half an era ahead, plus the difference of
// clocks, so a distance of half the range or more means the past.
func ticksLeft(value uint64, now int64) int64 {
	left := int64((value - uint64(now)) & tickMask)
	if left >= 1<<(tickBits-1) {
		return 0
	}
	return left
}

// charge admits the arrival at its key's word, or refuses it. isLost says that the word changed
// meanwhile, and that nothing was decided.
func (l *RateLimiter) charge(way *word, a arrival) (d decision, isLost bool) {
	old := way.Load()
	if old>>tickBits != a.tag {
		return d, true
	}
	before := ticksLeft(old, a.ticks)
	left := before + a.cost
	if left > l.window {
		return decision{wait: left - l.window, left: before}, false
	}
	return decision{isAllowed: true, left: left}, !way.CompareAndSwap(old, a.word(left))
}

// word returns the word of a key whose full burst is available in left ticks.
func (a arrival) word(left int64) uint64 {
	return a.tag<<tickBits | uint64(a.ticks+left)&tickMask
}
