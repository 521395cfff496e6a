package sluiceredis

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/internal/test/redistest"
)

// A server is a redis-server of its own.
type server struct {
	*redistest.Server
	t *testing.T
}

func newServer(t *testing.T) *server { return &server{redistest.New(t), t} }

func (s *server) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, ReadTimeout: 20 * time.Second})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// store returns a Store, and the number of its errors.
func (s *server) store(o Options) (*Store, *atomic.Int64) {
	s.t.Helper()
	errs := &atomic.Int64{}
	o.OnError = func(error) { errs.Add(1) }
	store, err := New(&redis.UniversalOptions{Addrs: []string{s.Socket}}, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.t.Error(err)
		}
	})
	return store, errs
}

// patient are options for tests on a busy machine, in which Redis is not away.
var patient = Options{Timeout: 20 * time.Second}
