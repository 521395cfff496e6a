package sluiceredis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

// A RateLimit says how many events are allowed for each key.
type RateLimit struct {
	// Events is the number of events allowed in each Per, spread evenly. Both must be positive.
	// The maximum is an event in a microsecond.
	Events int
	// Per is the time for Events.
	Per time.Duration
	// Burst is how many events are allowed at once after a pause. Zero means Events.
	Burst int
	// Away decides while Redis is away. nil refuses all events. Admit admits them. The method
	// Take of a shared.RateLimiter lets each machine have a limit of its own meanwhile.
	Away func(key []byte) shared.Quota
}

// Admit is a RateLimit.Away that admits all events.
func Admit([]byte) shared.Quota { return shared.Quota{IsAllowed: true} }

// maxWindow bounds how long a burst may take: the script counts microseconds in doubles.
const maxWindow = 366 * 24 * time.Hour

// A RateLimiter admits at most Burst events at once and Events in each Per, for each key, over
// all machines together, by the clock of Redis. It is a middleware.Limiter. A key takes about
// 100 bytes in Redis, until its full burst is available again.
//
// Machines may use different limits; each applies its own.
type RateLimiter struct {
	store    *Store
	prefix   string
	interval int64 // microseconds for an event
	window   int64 // microseconds for a burst
	burst    int
	away     func(key []byte) shared.Quota
}

// RateLimiter returns the rate limiter of that name, which has no colon: that separates it from keys,
// which clients may choose. The error is ErrOption.
func (s *Store) RateLimiter(name string, limit RateLimit) (*RateLimiter, error) {
	if limit.Burst == 0 {
		limit.Burst = limit.Events
	}
	if strings.Contains(name, ":") {
		return nil, fmt.Errorf("%w: rate limiter %q has a colon in its name", ErrOption, name)
	}
	if limit.Events < 1 || limit.Burst < 1 || limit.Per/time.Microsecond < time.Duration(limit.Events) || limit.Per > maxWindow {
		return nil, fmt.Errorf("%w: rate limiter %q with %d events, bursts of %d, per %v", ErrOption, name, limit.Events, limit.Burst, limit.Per)
	}
	interval := (int64(limit.Per/time.Microsecond)-1)/int64(limit.Events) + 1 // rounded up: too slow rather than too fast
	if interval > int64(maxWindow/time.Microsecond)/int64(limit.Burst) {
		return nil, fmt.Errorf("%w: rate limiter %q: a burst of %d takes too long", ErrOption, name, limit.Burst)
	}
	l := &RateLimiter{
		store: s, prefix: s.options.Prefix + "limit:" + name + ":",
		interval: interval, window: interval * int64(limit.Burst), burst: limit.Burst, away: limit.Away,
	}
	if l.away == nil {
		l.away = l.refuse
	}
	return l, nil
}

// gcra is a script that keeps for each key the time at which its full burst is available again, and returns
// whether the event is admitted, how long to wait otherwise, and the time until then. A key ends
// by itself at that time.
const gcra = `
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local interval, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local left = math.max((tonumber(redis.call('GET', KEYS[1])) or 0) - now, 0)
if left + interval > window then
	return {0, left + interval - window, left}
end
left = left + interval
redis.call('SET', KEYS[1], string.format('%.0f', now + left), 'PX', math.ceil(left / 1000))
return {1, 0, left}
`

// Take asks for one event of key; see shared.RateLimiter.Take.
func (l *RateLimiter) Take(key []byte) shared.Quota {
	var answer []int64
	err := l.store.ask(func(ctx context.Context) (err error) {
		answer, err = l.store.scripts.gcra.Run(ctx, l.store.client, []string{l.prefix + short(key)}, l.interval, l.window).Int64Slice()
		return err
	})
	if err != nil || len(answer) != 3 {
		return l.away(key)
	}
	return shared.Quota{
		IsAllowed: answer[0] == 1, RetryAfter: microseconds(answer[1]),
		Left: int(max(l.window-answer[2], 0) / l.interval), Reset: microseconds(answer[2]),
	}
}

// Limit returns Burst, and the time after which all of it is available again.
func (l *RateLimiter) Limit() (burst int, refill time.Duration) {
	return l.burst, microseconds(l.window)
}

// refuse is the Away of a RateLimit without one.
func (l *RateLimiter) refuse([]byte) shared.Quota {
	return shared.Quota{RetryAfter: l.store.options.Pause, Reset: l.store.options.Pause}
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// short returns a key of a bounded length: clients choose some.
func short(key []byte) string {
	if len(key) <= 2*sha256.Size {
		return string(key)
	}
	sum := sha256.Sum256(key)
	return "sha256:" + hex.EncodeToString(sum[:])
}
