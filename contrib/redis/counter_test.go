package sluiceredis

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// What all machines add is counted once, and survives that Redis is away.
func TestCounter(t *testing.T) {
	s := newServer(t)
	first, _ := s.store(patient)
	second, _ := s.store(patient)
	hits := first.Counter("hits")
	if n, err := hits.Value(); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	var machines sync.WaitGroup
	for _, store := range []*Store{first, second} {
		c := store.Counter("hits")
		machines.Go(func() {
			for range 1000 {
				c.Inc()
				c.Add(2)
			}
			if err := store.Close(); err != nil { // sends the rest
				t.Error(err)
			}
		})
	}
	machines.Wait()
	third, _ := s.store(patient)
	if n, err := third.Counter("hits").Value(); n != 6000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestCounterAway(t *testing.T) {
	s := newServer(t)
	store, errs := s.store(Options{Timeout: time.Second, Pause: 50 * time.Millisecond})
	hits := store.Counter("hits")
	s.Kill()
	for errs.Load() < patience {
		if _, err := hits.Value(); err == nil {
			t.Fatal("Redis has answered")
		}
	}
	if _, err := hits.Value(); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
	hits.Add(5)
	if n, err := hits.Value(); n != 5 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	for before := errs.Load(); errs.Load() == before; { // it tries to send
		time.Sleep(time.Millisecond)
	}
	s.Start()
	for hits.pending.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	other, _ := s.store(patient)
	if n, err := other.Counter("hits").Value(); n != 5 || err != nil {
		t.Errorf("%d, %v: what was added while Redis was away is lost", n, err)
	}
}
