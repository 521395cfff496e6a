package sluiceredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/shared"
)

// A Cache keeps values that any machine has set, each until its time is over or Redis evicts it.
// Its methods are those of a shared.Cache: put one of these in front of it, for what a machine
// asks for often, since each call here is a round trip.
//
// While Redis is away, nothing is found and nothing is set. If many requests then make the same
// value concurrently, let a shared.Lease admit one.
type Cache struct {
	store    *Store
	prefix   string
	maxEntry int
}

// Cache returns the cache of that name, which has no colon. maxEntry is the maximum size of a key
// and its value together, in bytes; at least 1. The error is ErrOption.
func (s *Store) Cache(name string, maxEntry int) (*Cache, error) {
	if maxEntry < 1 || strings.Contains(name, ":") {
		return nil, fmt.Errorf("%w: cache %q with entries of %d bytes, or a colon in its name", ErrOption, name, maxEntry)
	}
	return &Cache{store: s, prefix: s.options.Prefix + "cache:" + name + ":", maxEntry: maxEntry}, nil
}

// Get appends the value of key to dst. If there is none, or Redis does not answer, it returns dst
// unchanged and false.
func (c *Cache) Get(dst, key []byte) (value []byte, isFound bool) {
	err := c.store.ask(func(ctx context.Context) (err error) {
		value, err = c.store.client.Get(ctx, c.prefix+short(key)).Bytes()
		isFound = err == nil
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if err != nil || !isFound || len(key)+len(value) > c.maxEntry {
		return dst, false
	}
	return append(dst, value...), true
}

// Set stores value under key for ttl, which must be positive. It copies both. Errors:
// shared.ErrTooLarge if key and value together are larger than maxEntry, and then the old value
// is removed; ErrOption; ErrAway, or that of Redis, and then the old value may remain.
func (c *Cache) Set(key, value []byte, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("%w: an entry for %v", ErrOption, ttl)
	}
	if len(key)+len(value) > c.maxEntry {
		if err := c.Delete(key); err != nil {
			return err
		}
		return shared.ErrTooLarge
	}
	return c.store.ask(func(ctx context.Context) error {
		return c.store.client.Set(ctx, c.prefix+short(key), value, max(ttl, time.Millisecond)).Err()
	})
}

// Delete removes the value of key. The error is ErrAway, or that of Redis; then the value may
// still be there, until its time is over.
func (c *Cache) Delete(key []byte) error {
	return c.store.ask(func(ctx context.Context) error { return c.store.client.Del(ctx, c.prefix+short(key)).Err() })
}
