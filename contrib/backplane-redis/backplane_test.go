package redisbackplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
	"github.com/sluicehttp/sluice/internal/process/relay/relaytest"
	"github.com/sluicehttp/sluice/internal/test/redistest"
)

// open connects n backplanes to a server.
func open(t *testing.T, s *redistest.Server, n int, o Options) (all []backplane.Backplane) {
	for range n {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, ReadTimeout: 20 * time.Second})
		t.Cleanup(func() { client.Close() })
		b, err := New(client, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all = append(all, b)
	}
	return all
}

func TestBackplane(t *testing.T) {
	s, groups := redistest.New(t), 0
	backplanetest.Test(t, func(t *testing.T, n int) []backplane.Backplane {
		groups++
		return open(t, s, n, Options{Prefix: fmt.Sprint("group ", groups, ":"), OnError: func(err error) { t.Error(err) }})
	})
}

// TestRestart: the server dies, and is started again.
func TestRestart(t *testing.T) {
	s, errs := redistest.New(t), make(chan error, 1)
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		return open(t, s, n, Options{OnError: func(err error) {
			select {
			case errs <- err:
			default:
			}
		}})
	}, func() { s.Kill(); t.Log(<-errs) }, s.Start)
}

// TestHubs: WebSockets of two hubs are in one room.
func TestHubs(t *testing.T) { relaytest.Hubs(t, open(t, redistest.New(t), 2, Options{})) }

func TestHistory(t *testing.T) { relaytest.History(t, open(t, redistest.New(t), 3, Options{})) }

func TestNew(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if _, err := New(ring, Options{}); err == nil {
		t.Error("a Ring is accepted")
	}
}
