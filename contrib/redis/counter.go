package sluiceredis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Counter only goes up. Add and Inc do not ask Redis: ten times a second, what was added is
// sent.
//
// While Redis is away, it is kept and sent later. What is being sent when a connection breaks may
// be lost, and is not sent twice; so is what a process that is killed has not sent.
type Counter struct {
	store   *Store
	key     string
	pending atomic.Uint64
}

// Counter returns the counter of that name. Each call starts a goroutine, until Close: call it
// once for each name.
func (s *Store) Counter(name string) *Counter {
	c := &Counter{store: s, key: s.options.Prefix + "counter:" + name}
	s.running.Go(c.run)
	return c
}

// Add adds n.
func (c *Counter) Add(n uint64) { c.pending.Add(n) }

// Inc adds one.
func (c *Counter) Inc() { c.pending.Add(1) }

// Value returns what all processes have added and sent, and what this one has not sent yet; what
// is on the way may be missing. It asks Redis. The error is ErrAway, or that of Redis.
func (c *Counter) Value() (total uint64, err error) {
	err = c.store.ask(func(ctx context.Context) error {
		if total, err = c.store.client.Get(ctx, c.key).Uint64(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	return total + c.pending.Load(), err
}

// run sends what is pending.
func (c *Counter) run() {
	tick := time.NewTicker(flushPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.send()
		case <-c.store.ctx.Done():
			c.send()
			return
		}
	}
}

func (c *Counter) send() {
	n := c.pending.Load()
	if n == 0 {
		return
	}
	_ = c.store.ask(func(ctx context.Context) error { // ErrAway: it stays pending; OnError gets others
		if err := c.store.client.Ping(ctx).Err(); err != nil {
			return err // so that only a connection that breaks now may lose something
		}
		c.pending.Add(-n) // it is not sent twice, whatever becomes of it
		return c.store.client.IncrBy(ctx, c.key, int64(n)).Err()
	})
}
