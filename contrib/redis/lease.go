package sluiceredis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrLost is the cause of the context that Lease.Lead passes to run, when the lease was lost:
// because Redis was away for too long, or has forgotten it.
var ErrLost = errors.New("sluice: sluiceredis: the lease was lost")

// At most one Lease of a name is held, over all machines, for instance by the one that runs the
// timed jobs. It ends after a time, unless it is renewed: Redis cannot see that a machine is dead.
//
// Redis copies what it has to its replicas later. When one of them takes its place, two Leases
// may be held for as long as the limit. Guard what must not happen twice in the database that it
// changes.
type Lease struct {
	store *Store
	key   string
	token string
	limit time.Duration

	mu    sync.Mutex // held while Redis is asked
	until time.Time  // when the lease ends, at the latest; zero: it is not held
}

// Lease returns a Lease of that name, which ends limit after it was acquired or renewed. limit
// is a second at least, and ten times Options.Timeout. Otherwise the error is ErrOption.
func (s *Store) Lease(name string, limit time.Duration) (*Lease, error) {
	if limit < time.Second || limit < 10*s.options.Timeout {
		return nil, fmt.Errorf("%w: lease %q for %v", ErrOption, name, limit)
	}
	return &Lease{store: s, key: s.options.Prefix + "lease:" + name, token: rand.Text(), limit: limit}, nil
}

// acquire is a script that sets the key if it is free, or this Lease's.
const acquire = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
	return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`

// renew is a script that restarts the time of a key that is this Lease's.
const renew = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
	return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`

// release is a script that deletes a key that is this Lease's.
const release = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
	return 0
end
return redis.call('DEL', KEYS[1])
`

// TryAcquire acquires the lease if it is free, and reports whether it did. It returns false if
// this Lease already holds it, and while Redis is away.
func (l *Lease) TryAcquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.isHeldLocked() && l.runLocked(l.store.scripts.acquire)
}

// Renew restarts the time limit. It returns false if the lease is not held, and while Redis is
// away; the lease is then held until its time is over.
func (l *Lease) Renew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isHeldLocked() && l.runLocked(l.store.scripts.renew)
}

// Release makes the lease free. While Redis is away, it becomes free when its time is over.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isHeldLocked() {
		l.runLocked(l.store.scripts.release)
		l.until = time.Time{}
	}
}

// Held reports whether the lease is held. It does not ask Redis.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isHeldLocked()
}

func (l *Lease) isHeldLocked() bool { return time.Now().Before(l.until) }

// runLocked runs a script, and reports whether the lease is held until limit after its begin.
func (l *Lease) runLocked(script *redis.Script) bool {
	begin, done := time.Now(), 0
	err := l.store.ask(func(ctx context.Context) (err error) {
		done, err = script.Run(ctx, l.store.client, []string{l.key}, l.token, l.limit.Milliseconds()).Int()
		return err
	})
	switch {
	case err != nil: // until stays: another holder comes only after it
		return false
	case done == 0:
		l.until = time.Time{}
		return false
	}
	l.until = begin.Add(l.limit - l.limit/20) // clocks of two machines do not run alike
	return true
}

// Lead waits until the lease is acquired, and calls run. It renews the lease while run runs,
// releases it when run returns, and returns run's error. run's context ends with ctx; it also
// ends when the lease is lost, with the cause ErrLost. If ctx ends during the wait, Lead returns
// ctx's cause.
func (l *Lease) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	tick := time.NewTicker(l.limit / 4)
	defer tick.Stop()
	for !l.TryAcquire() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	defer l.Release()
	ctx, cancel := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer cancel(nil)
	keeping.Go(func() {
		if l.keep(ctx, tick.C) {
			cancel(ErrLost)
		}
	})
	return run(ctx)
}

// keep renews the lease with each tick, until ctx ends or the lease is lost. It reports which.
func (l *Lease) keep(ctx context.Context, tick <-chan time.Time) (isLost bool) {
	for l.left() > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			l.Renew()
		case <-time.After(l.left()): // before another machine may acquire it
		}
	}
	return true
}

// left returns how long the lease is still held; less than 1 if it is not.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}
