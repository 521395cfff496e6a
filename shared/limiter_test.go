package shared

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var testLimit = RateLimit{Events: 1000, Per: time.Second, Burst: 500, Keys: 100}

// limitRole asks for keys until it is told to stop, and reports how often it was
// admitted.
func limitRole(s *Segment, in *bufio.Scanner) {
	limiter := Must(s.RateLimiter("limit", testLimit))
	say("ready")
	until, _ := strconv.ParseInt(hear(in), 10, 64)
	var admitted [10]int
	for round := 0; round < testLimit.Burst || s.Now() < until; round++ {
		for key := range admitted {
			if isAllowed, _ := limiter.Allow([]byte{byte(key)}); isAllowed {
				admitted[key]++
			}
		}
	}
	for _, n := range admitted {
		say(n)
	}
}

// clockRole does the same at times that the test sends.
func clockRole(s *Segment, in *bufio.Scanner) {
	limiter := Must(s.RateLimiter("limit", testLimit))
	say("ready")
	for {
		now, _ := strconv.ParseInt(hear(in), 10, 64)
		admitted := 0
		for range 2000 {
			if isAllowed, _ := limiter.AllowAt([]byte("key"), 1, now); isAllowed {
				admitted++
			}
		}
		say(admitted)
	}
}

func TestLimitOverProcesses(t *testing.T) {
	s := newShared(t, 5)
	workers := startProcesses(t, s, "limit", 4)
	began := s.Now()
	for _, w := range workers {
		w.send(strconv.FormatInt(began+int64(500*time.Millisecond), 10))
	}
	var admitted [10]int
	for _, w := range workers {
		for key := range admitted {
			admitted[key] += w.receiveInt()
		}
	}
	took := time.Duration(s.Now() - began)
	most := testLimit.Burst + int(took.Seconds()*float64(testLimit.Events))
	for key, n := range admitted {
		if n > most || n < testLimit.Burst {
			t.Errorf("key %d: %d admitted in %v, at most %d are allowed", key, n, took, most)
		}
	}
}

// While the clock stands still, four processes together get exactly one burst, and
// then exactly the events of each step of the clock.
func TestLimitIsExact(t *testing.T) {
	s := newShared(t, 5)
	workers := startProcesses(t, s, "clock", 4)
	now := s.Now()
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{0, 500}, {0, 0}, {100 * time.Millisecond, 100}, {time.Millisecond - 1, 0}, {1, 1}, {time.Hour, 500}, {-time.Minute, 0}} {
		now += int64(step.by)
		for _, w := range workers {
			w.send(strconv.FormatInt(now, 10))
		}
		admitted := 0
		for _, w := range workers {
			admitted += w.receiveInt()
		}
		if admitted != step.want {
			t.Errorf("after %v: %d admitted, want %d", step.by, admitted, step.want)
		}
	}
}

func TestLimitOptions(t *testing.T) {
	s := newLocal(t)
	for _, c := range []struct {
		limit RateLimit
		want  error
	}{
		{RateLimit{Events: 1, Per: time.Second}, nil},
		{RateLimit{}, ErrOption},
		{RateLimit{Events: 1}, ErrOption},
		{RateLimit{Events: 2, Per: 1}, ErrOption},
		{RateLimit{Events: 1, Per: 1, Keys: 1}, nil},
		{RateLimit{Events: 1, Per: time.Second, Burst: limiterMaxBurst + 1}, ErrOption},
		{RateLimit{Events: 1, Per: time.Second, Burst: -1}, ErrOption},
		{RateLimit{Events: 1, Per: time.Second, Keys: limiterMaxKeys + 1}, ErrOption},
		{RateLimit{Events: 1, Per: 365 * 24 * time.Hour, Burst: 1000}, ErrOption},
		{RateLimit{Events: 1, Per: 365 * 24 * time.Hour, Burst: 10, Keys: 10}, nil},
		{RateLimit{Events: 1<<31 - 1, Per: 1<<31 - 1, Keys: 10}, nil},
		{RateLimit{Events: 1<<31 - 1, Per: 1<<63 - 1, Burst: 1, Keys: 10}, nil},
	} {
		if _, err := s.RateLimiter(fmt.Sprintf("%+v", c.limit), c.limit); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%+v: %v, want %v", c.limit, err, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	s := newLocal(t)
	for _, c := range []struct {
		limit RateLimit
		n     int
		want  time.Duration
	}{
		{RateLimit{Events: 10, Per: time.Second, Burst: 2, Keys: 10}, 1, 100 * time.Millisecond},
		{RateLimit{Events: 10, Per: time.Second, Burst: 2, Keys: 20}, 2, 200 * time.Millisecond},
		{RateLimit{Events: 1, Per: time.Hour, Burst: 3, Keys: 10}, 1, time.Hour},
		{RateLimit{Events: 1, Per: time.Hour, Burst: 3, Keys: 20}, 4, Never},
		{RateLimit{Events: 1_000_000, Per: time.Second, Burst: 10, Keys: 10}, 0, time.Microsecond},
	} {
		l := Must(s.RateLimiter(fmt.Sprint(c), c.limit))
		key, now := []byte("key"), s.Now()
		for i := range c.limit.Burst {
			if isAllowed, after := l.AllowAt(key, 1, now); !isAllowed || after != 0 {
				t.Fatalf("%+v: event %d of a burst: %v, again after %v", c.limit, i, isAllowed, after)
			}
		}
		isAllowed, after := l.AllowAt(key, c.n, now)
		if isAllowed || (after-c.want).Abs() > c.want/1000+time.Duration(1)<<l.shift {
			t.Errorf("%+v, %d: %v after %v, want after %v", c.limit, c.n, isAllowed, after, c.want)
		}
		if after == Never {
			continue
		}
		if early, _ := l.AllowAt(key, c.n, now+int64(after)-int64(1)<<l.shift); early {
			t.Errorf("%+v: allowed before its time", c.limit)
		}
		if isAllowed, _ := l.AllowAt(key, c.n, now+int64(after)+int64(1)<<l.shift); !isAllowed {
			t.Errorf("%+v: refused after its time", c.limit)
		}
	}
}

// The limiter agrees with a model that has a bucket for each key, over a time in
// which the words' times wrap around several times, and with more keys than fit a
// set.
func TestLimitAgainstModel(t *testing.T) {
	s := newLocal(t)
	limit := RateLimit{Events: 10, Per: time.Second, Burst: 20, Keys: 200}
	l := Must(s.RateLimiter("limit", limit))
	random := rand.New(rand.NewPCG(1, 2))
	full := map[string]int64{} // when a key's burst is full again
	now := s.Now()
	for i := range 300_000 {
		switch step := random.IntN(1000); {
		case step == 0:
			now += random.Int64N(1 << (tickBits + 1)) // long enough to wrap around
		case step < 5:
			now += random.Int64N(1 << eraBits)
		default:
			now += random.Int64N(int64(5 * time.Millisecond))
		}
		key, n := fmt.Sprint(random.IntN(150)), 1+random.IntN(3)
		whole := max(full[key], now) + int64(n)*int64(limit.Per)/int64(limit.Events)
		want := whole-now <= int64(limit.Burst)*int64(limit.Per)/int64(limit.Events)
		if want {
			full[key] = whole
		}
		if got, _ := l.AllowAt([]byte(key), n, now); got != want {
			t.Fatalf("call %d: key %s at %d: %v, want %v", i, key, now, got, want)
		}
	}
}

func TestTableOfKeysIsFull(t *testing.T) {
	s := newLocal(t)
	limit := RateLimit{Events: 1, Per: time.Minute, Burst: 1, Keys: 64}
	for _, admits := range []bool{false, true} {
		limit.AdmitWhenFull = admits
		l := Must(s.RateLimiter(fmt.Sprint(admits), limit))
		now := s.Now()
		fill := func(from int) (admitted int) {
			for key := range 1000 {
				if isAllowed, after := l.AllowAt([]byte(fmt.Sprint(from, key)), 1, now); isAllowed {
					admitted++
					if after != 0 {
						t.Fatalf("admitted, and again after %v", after)
					}
				} else if after <= 0 || after > time.Minute {
					t.Fatalf("retry after %v", after)
				}
			}
			return admitted
		}
		admitted := fill(0) // two keys look the same now and then
		if admits && admitted < 995 || !admits && (admitted < 64 || admitted > 96) {
			t.Errorf("AdmitWhenFull %v: %d keys of 1000 admitted", admits, admitted)
		}
		now += int64(time.Minute)
		if again := fill(1); !admits && again < 64 {
			t.Errorf("after all have expired: %d keys admitted", again)
		}
	}
}

// A set has six places, even for fewer expected keys, so six keys fit.
func TestPlacesOfSet(t *testing.T) {
	s := newLocal(t)
	for keys := 1; keys <= 4; keys++ {
		l := Must(s.RateLimiter(fmt.Sprint(keys), RateLimit{Events: 1, Per: time.Hour, Keys: keys}))
		admitted, now := 0, s.Now()
		for key := range 100 {
			if isAllowed, _ := l.AllowAt([]byte{byte(key)}, 1, now); isAllowed {
				admitted++
			}
		}
		if admitted != 6 {
			t.Errorf("for %d keys, %d are admitted", keys, admitted)
		}
	}
}

// All expected keys have room.
func TestKeysFit(t *testing.T) {
	s := newLocal(t)
	limit := RateLimit{Events: 1, Per: time.Hour, Burst: 1, Keys: 1 << 16}
	l := Must(s.RateLimiter("limit", limit))
	refused := 0
	for key := range limit.Keys {
		if isAllowed, _ := l.Allow([]byte(fmt.Sprint("client-", key))); !isAllowed {
			refused++
		}
	}
	if refused > limit.Keys/1000 {
		t.Errorf("%d of %d keys were refused", refused, limit.Keys)
	}
}

// Many processes ask for the same keys for the first time, again in each era: a key
// never gets two words, and no admission is forgotten.
func TestNewKeysAtOnce(t *testing.T) {
	s := newLocal(t)
	limit := RateLimit{Events: 2, Per: time.Second, Keys: 2000}
	const keys = 1000
	start := s.Now()
	for round := range 20 {
		now := start + int64(round)<<eraBits
		var admitted [keys]atomic.Int32
		var all sync.WaitGroup
		for i := range 4 {
			pid := 999_999_000 + i
			other := attachAgain(t, s, pid)
			other.lockWait = time.Minute
			l := Must(other.RateLimiter("limit", limit))
			all.Go(func() {
				defer s.Reap(pid)
				for key := range keys {
					for range 2 {
						if isAllowed, _ := l.AllowAt(fmt.Append(nil, key), 1, now); isAllowed {
							admitted[key].Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		for key := range admitted {
			if n := admitted[key].Load(); n != 2 {
				t.Fatalf("round %d: %d of key %d were admitted", round, n, key)
			}
		}
	}
}

// Events at the end of an era still count in the next one, for as long as they
// should, and in no later one.
func TestLimitOverEras(t *testing.T) {
	s := newLocal(t)
	limit := RateLimit{Events: 10, Per: time.Second, Burst: 20, Keys: 8}
	for _, c := range []struct {
		name  string
		after time.Duration // since the last moment of an era
		want  int
	}{
		{"the next moment", 1, 0}, {"one event later", 100 * time.Millisecond, 1}, {"just before", 2*time.Second - 1, 19}, {"the burst later", 2 * time.Second, 20},
		{"at the end of the next era", 1 << eraBits, 20}, {"an era between", 1<<eraBits + 1, 20}, {"three eras", 3 << eraBits, 20},
		{"the circle, at its end", 1<<tickBits - 1, 20}, {"the circle", 1 << tickBits, 20}, {"and its beginning", 1<<tickBits + 1, 20},
	} {
		l := Must(s.RateLimiter(c.name, limit))
		now := int64(5<<eraBits - 1)
		for key := range 8 {
			if isAllowed, _ := l.AllowAt([]byte{byte(key)}, 20, now); !isAllowed {
				t.Fatalf("%s: key %d: the burst was refused", c.name, key)
			}
		}
		now += int64(c.after)
		for key := range 8 {
			admitted := 0
			for range 30 {
				if isAllowed, _ := l.AllowAt([]byte{byte(key)}, 1, now); isAllowed {
					admitted++
				}
			}
			if admitted != c.want {
				t.Errorf("%s: key %d: %d admitted, want %d", c.name, key, admitted, c.want)
			}
		}
	}
}

// If another process has locked the sets of a new key, the key is refused for the
// time of an event, and the caller leaves neither set locked.
func TestLimitBesideLock(t *testing.T) {
	s := newLocal(t)
	s.lockWait = 0
	other := attachAgain(t, s, 999_999_999)
	for _, limit := range []RateLimit{
		{Events: 10, Per: time.Second, Keys: 1000}, {Events: 1, Per: time.Hour, Burst: 10, Keys: 1000},
	} {
		l := Must(s.RateLimiter(fmt.Sprint(limit), limit))
		key := []byte("key")
		p := l.pair(s.hasher.sum(key))
		if p.first == p.second {
			key = []byte("another key")
			p = l.pair(s.hasher.sum(key))
		}
		for i, set := range []*limiterSet{p.first, p.second} {
			if _, isLocked := other.lock(&set[limiterLock]); !isLocked {
				t.Fatal("the set is locked")
			}
			isAllowed, after := l.Allow(key)
			if want := limit.Per / time.Duration(limit.Events); isAllowed || (after-want).Abs() > want/1000 {
				t.Errorf("%+v, set %d is locked: %v, again after %v, want %v", limit, i, isAllowed, after, want)
			}
			other.unlock(&set[limiterLock])
			if p.first[limiterLock].Load() != 0 || p.second[limiterLock].Load() != 0 {
				t.Errorf("%+v, set %d was locked: one still is", limit, i)
			}
		}
		if isAllowed, _ := l.Allow(key); !isAllowed {
			t.Errorf("%+v: refused with no lock held", limit)
		}
		if p.first[limiterLock].Load() != 0 || p.second[limiterLock].Load() != 0 {
			t.Errorf("%+v: a lock was not given back", limit)
		}
	}
}

// A quota says what the next requests will get.
func TestQuota(t *testing.T) {
	s := newLocal(t)
	l := Must(s.RateLimiter("limit", RateLimit{Events: 3, Per: time.Hour, Keys: 4}))
	if burst, refill := l.Limit(); burst != 3 || refill < time.Hour || refill > time.Hour+time.Second {
		t.Errorf("%d in %v", burst, refill)
	}
	near := func(d, want time.Duration) bool { return d <= want+time.Second && d >= want-5*time.Minute }
	for i, want := range []Quota{
		{true, 0, 2, 20 * time.Minute},
		{true, 0, 1, 40 * time.Minute},
		{true, 0, 0, time.Hour},
		{false, 20 * time.Minute, 0, time.Hour},
	} {
		q := l.Take([]byte("key"))
		if q.IsAllowed != want.IsAllowed || q.Left != want.Left || !near(q.RetryAfter, want.RetryAfter) || !near(q.Reset, want.Reset) {
			t.Errorf("request %d: %+v, want %+v", i, q, want)
		}
	}
	for i := range 100 { // the table fills up
		if q := l.Take([]byte{byte(i)}); !q.IsAllowed && (q.Left != 0 || q.RetryAfter <= 0) {
			t.Errorf("key %d: %+v", i, q)
		}
	}
	// A process whose limit was lower has counted more than a burst of this one.
	slow := Must(s.RateLimiter("other", RateLimit{Events: 1, Per: time.Hour, Burst: 6, Keys: 4}))
	for range 6 {
		slow.Take([]byte("key"))
	}
	fast := *slow
	fast.window = slow.interval
	if q := fast.Take([]byte("key")); q.IsAllowed || q.Left != 0 || q.RetryAfter < 4*time.Hour {
		t.Errorf("%+v", q)
	}
}
