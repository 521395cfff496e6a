// Package sluiceredis has rate limits, counters, leases and caches that several machines share,
// in Redis or Valkey. Those of package shared are for the processes of one machine.
//
//	store, err := sluiceredis.New(&redis.UniversalOptions{Addrs: []string{"redis:6379"}}, sluiceredis.Options{})
//	limit, err := store.RateLimiter("api", sluiceredis.RateLimit{Events: 100, Per: time.Minute, Away: sluiceredis.Admit})
//	handler = middleware.RateLimit(limit, middleware.RateLimitOptions{})(handler)
//
// # When Redis is away
//
// No call waits for longer than Options.Timeout. After three failures in a row, Redis is away:
// for Options.Pause no call asks it, and then one does, until one succeeds. What is away
// meanwhile: a RateLimiter decides by RateLimit.Away, a Counter keeps what is added, a Lease
// is neither acquired nor renewed, and ends, and a Cache finds nothing.
package sluiceredis

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrAway is returned while Redis is not asked, because it is away.
	ErrAway = errors.New("sluice: sluiceredis: Redis is away")
	// ErrOption means that an option has an invalid value.
	ErrOption = errors.New("sluice: sluiceredis: bad option")
)

const (
	// patience is how many failures in a row tell that Redis is away: one may be chance.
	patience = 3

	standardTimeout = 50 * time.Millisecond
	standardPause   = time.Second
	flushPeriod     = 100 * time.Millisecond
)

// Options configure a Store; all fields may be zero.
type Options struct {
	// Prefix begins all keys; "": "sluice:". Programs that share a Redis and nothing else need
	// different ones.
	Prefix string
	// Timeout bounds each question to Redis, with what it needs: a connection, a name that is
	// resolved. 0: 50 ms.
	Timeout time.Duration
	// Pause is how long Redis is not asked when it is away. 0: a second.
	Pause time.Duration
	// OnError is called for errors of Redis and of the connections to it, but not for each call
	// while it is away. Calls may be concurrent. It must not block. nil: they are dropped.
	OnError func(err error)
}

// A Store is what several machines share. Make it with New. Its methods are safe for concurrent
// use.
type Store struct {
	client  redis.UniversalClient
	options Options
	scripts struct{ gcra, acquire, renew, release *redis.Script }
	begin   time.Time // of the clock of awayUntil

	failures  atomic.Int32 // in a row
	awayUntil atomic.Int64 // since begin; the next call after it asks. 0: Redis is not away

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup
}

// New returns a Store for a server, sentinels, or a cluster, as o says. It does not wait for
// Redis, which may be started later. It changes the time-outs and retries of a copy of o, so
// that Options.Timeout holds.
func New(o *redis.UniversalOptions, options Options) (*Store, error) {
	if len(o.Addrs) == 0 || options.Timeout < 0 || options.Pause < 0 {
		return nil, ErrOption
	}
	options.Prefix = cmp.Or(options.Prefix, "sluice:")
	options.Timeout = cmp.Or(options.Timeout, standardTimeout)
	options.Pause = cmp.Or(options.Pause, standardPause)
	if options.OnError == nil {
		options.OnError = func(error) {}
	}
	own := *o
	own.ContextTimeoutEnabled, own.MaxRetries, own.DialerRetries = true, -1, 1
	own.DialTimeout, own.ReadTimeout, own.WriteTimeout, own.PoolTimeout = options.Timeout, options.Timeout, options.Timeout, options.Timeout
	s := &Store{client: redis.NewUniversalClient(&own), options: options, begin: time.Now()}
	s.scripts.gcra, s.scripts.acquire = redis.NewScript(gcra), redis.NewScript(acquire)
	s.scripts.renew, s.scripts.release = redis.NewScript(renew), redis.NewScript(release)
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Close sends what counters still keep, within Options.Timeout for each, and ends the Store.
// Leases remain held until their time is over: release them before.
func (s *Store) Close() error {
	s.end()
	s.running.Wait()
	return s.client.Close()
}

// ask calls f, which asks Redis once, unless Redis is away.
func (s *Store) ask(f func(ctx context.Context) error) error {
	if !s.mayAsk() {
		return ErrAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	err := f(ctx)
	if err == nil {
		s.failures.Store(0)
		s.awayUntil.Store(0)
		return nil
	}
	if s.failures.Add(1) >= patience {
		s.awayUntil.Store(s.now() + int64(s.options.Pause))
	}
	s.options.OnError(err)
	return err
}

// mayAsk reports whether Redis may be asked. After the pause, one call may.
func (s *Store) mayAsk() bool {
	until := s.awayUntil.Load()
	if until == 0 {
		return true
	}
	now := s.now()
	return now >= until && s.awayUntil.CompareAndSwap(until, now+int64(s.options.Pause))
}

// now is at least 1.
func (s *Store) now() int64 { return int64(time.Since(s.begin)) + 1 }
