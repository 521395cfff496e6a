package prefork

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// Shared counters are exact (I17).
func TestCountersAreExact(t *testing.T) {
	const workers, clients, each = 4, 8, 1000
	requests := 125 // a million together
	if testing.Short() {
		requests = 25
	}
	f := start(t, setup{Workers: workers, Linger: patience}, true)
	by := make(map[string]int)
	spread := f.eachWorker(clients, requests, func(int) string { return fmt.Sprint("/add?n=", each) }, func(body string) error {
		pid, _, _ := strings.Cut(body, " ")
		by[pid]++
		return nil
	})
	if len(spread) != workers || len(by) != workers {
		t.Errorf("not all workers have counted: %v", by)
	}
	body, err := f.get("/add?n=0")
	if _, total, _ := strings.Cut(body, " "); err != nil || total != strconv.Itoa(clients*requests*each) {
		t.Errorf("%s, %v; want %d", total, err, clients*requests*each)
	}
}

// All workers together admit as much as one would (I17).
func TestLimiterIsShared(t *testing.T) {
	const workers, clients = 4, 8
	requests := 200
	if testing.Short() {
		requests = 50
	}
	f := start(t, setup{Workers: workers}, true)
	var admitted atomic.Int64
	began := time.Now()
	spread := f.eachWorker(clients, requests, func(int) string { return "/limit" }, func(body string) error {
		if body != "no" {
			admitted.Add(1)
		}
		return nil
	})
	most := limitBurst + int64(time.Since(began).Seconds()*limitEvents) + 1
	if n := admitted.Load(); len(spread) != workers || n > most || n < limitBurst {
		t.Errorf("%d of %d were admitted, at most %d may be, at least %d must; workers: %v", n, clients*requests, most, limitBurst, spread)
	}
	t.Logf("%d of %d admitted, at most %d", admitted.Load(), clients*requests, most)
}

// Workers that are killed while they write to the cache do not damage it (I17).
func TestCacheOutlivesWriters(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 5
	}
	f := start(t, setup{Workers: 3, Threshold: 1 << 20}, true)
	dial := f.dialer()
	var l load
	for i := range 8 {
		l.done.Add(1)
		go func() {
			defer l.done.Done()
			for n := i; !l.stop.Load(); n += 7 {
				body, err := useCacheOnce(dial, n)
				switch {
				case err != nil: // it was killed
				case body != "sound":
					l.fail(fmt.Errorf("round %d: %s", n, body))
					return
				default:
					l.answered.Add(1)
				}
			}
		}()
	}
	for range kills {
		goal := l.answered.Load() + 20
		until(t, "requests are answered", func() bool { return l.answered.Load() > goal || len(l.failed) > 0 })
		before := f.pids()
		for victim := range f.living() { // any of them
			pid, _ := strconv.Atoi(victim)
			nettest.Signal(t, pid, syscall.SIGKILL)
			break
		}
		until(t, "it is replaced", func() bool { return len(f.pids()) > len(before) })
	}
	l.end(t)
	for n := range cacheKeys {
		if body, err := f.get("/cache?n=" + itoa(n)); body != "sound" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
	}
}

// useCacheOnce sends the request on a new connection.
func useCacheOnce(dial func() (net.Conn, error), n int) (string, error) {
	c, err := dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	one := client{c: c}
	return one.ask("/cache?n=" + itoa(n))
}
