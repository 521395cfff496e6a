package redisbackplane

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
	"github.com/sluicehttp/sluice/internal/process/relay/relaytest"
)

func (s *server) open(t *testing.T, n int, o Options) (all []backplane.Backplane) {
	for range n {
		b, err := New(s.client(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all = append(all, b)
	}
	return all
}

func TestBackplane(t *testing.T) {
	s, groups := newServer(t), 0
	backplanetest.Test(t, func(t *testing.T, n int) []backplane.Backplane {
		groups++
		return s.open(t, n, Options{Prefix: fmt.Sprint("group ", groups, ":"), OnError: func(err error) { t.Error(err) }})
	})
}

// TestRestart: the server dies, and is started again.
func TestRestart(t *testing.T) {
	s, errs := newServer(t), make(chan error, 1)
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		return s.open(t, n, Options{OnError: func(err error) {
			select {
			case errs <- err:
			default:
			}
		}})
	}, func() { s.kill(); t.Log(<-errs) }, s.start)
}

// TestHubs: WebSockets of two hubs are in one room.
func TestHubs(t *testing.T) { relaytest.Hubs(t, newServer(t).open(t, 2, Options{})) }

func TestHistory(t *testing.T) { relaytest.History(t, newServer(t).open(t, 3, Options{})) }

func TestNew(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if _, err := New(ring, Options{}); err == nil {
		t.Error("a Ring is accepted")
	}
}
