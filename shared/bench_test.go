package shared

import (
	"bufio"
	"context"
	"fmt"
	"testing"
	"time"
)

// operations are common operations. None of them may allocate.
func operations(s *Segment) map[string]func() {
	counter, gauge, histogram := Must(s.Counter("counter")), Must(s.Gauge("gauge")), Must(s.Histogram("histogram"))
	limiter := Must(s.RateLimiter("limiter", RateLimit{Events: 1_000_000_000, Per: time.Second, Burst: 1 << 20}))
	cache := Must(s.Cache("cache", CacheOptions{MaxEntry: 2000}))
	flag, config := Must(s.Flag("flag")), Must(s.Config("config", 1000))
	lease, once, page := Must(s.Lease("lease", 0)), Must(s.Once("once")), s.Page()
	key, clock := []byte("192.168.100.200"), s.Now()
	values := map[int][]byte{}
	for _, size := range []int{64, 1024} {
		values[size] = make([]byte, size)
		if err := cache.Set(fmt.Append(nil, size), values[size], 0); err != nil {
			panic(err)
		}
	}
	_ = cache.Set([]byte("ttl"), values[64], time.Hour)
	_ = config.Store(values[64])
	_ = once.Do(context.Background(), func() error { return nil })
	lease.TryAcquire()
	buffer, snapshot := make([]byte, 0, 4096), new(Snapshot)
	key64, key1024, keyTTL := []byte("64"), []byte("1024"), []byte("ttl")
	processes := make([]Process, 0, 8)
	return map[string]func(){
		"counter.Inc":      counter.Inc,
		"counter.Value":    func() { counter.Value() },
		"gauge.Add":        func() { gauge.Add(1) },
		"histogram.Record": func() { histogram.Record(12345) },
		"histogram.Read":   func() { histogram.Read(snapshot) },
		"limiter.AllowAt":  func() { clock += 10; limiter.AllowAt(key, 1, clock) },
		"limiter.Allow":    func() { limiter.Allow(key) },
		"cache.Get.64":     func() { cache.Get(buffer, key64) },
		"cache.Get.64.ttl": func() { cache.Get(buffer, keyTTL) },
		"cache.Get.1024":   func() { cache.Get(buffer, key1024) },
		"cache.Get.miss":   func() { cache.Get(buffer, key) },
		"cache.Set.64":     func() { _ = cache.Set(key64, values[64], 0) },
		"cache.Set.64.ttl": func() { _ = cache.Set(keyTTL, values[64], time.Hour) },
		"cache.Set.1024":   func() { _ = cache.Set(key1024, values[1024], 0) },
		"flag.IsOn":        func() { flag.IsOn() },
		"config.Version":   func() { config.Version() },
		"config.Load.64":   func() { config.Load(buffer) },
		"config.Store.64":  func() { _ = config.Store(values[64]) },
		"lease.Held":       func() { lease.Held() },
		"once.Do":          func() { _ = once.Do(context.Background(), nil) },
		"page.Add":         func() { page.Add(Accepted, 1) },
		"scoreboard":       func() { s.Scoreboard(processes) },
		"now":              func() { s.Now() },
	}
}

func TestAllocations(t *testing.T) {
	for name, operation := range operations(newLocal(t)) {
		if n := testing.AllocsPerRun(100, operation); n != 0 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
}

func BenchmarkOperations(b *testing.B) {
	for name, operation := range operations(newShared(b, 64)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				operation()
			}
		})
	}
}

// hammerRole uses values until it is killed.
func hammerRole(s *Segment, _ *bufio.Scanner) {
	all := operations(s)
	say("ready")
	for {
		for _, name := range beside {
			all[name]()
		}
	}
}

// beside names the operations that are also measured while another process runs them.
var beside = []string{"counter.Inc", "histogram.Record", "limiter.AllowAt", "cache.Get.64", "cache.Set.64"}

func BenchmarkBesideProcess(b *testing.B) {
	s := newShared(b, 64)
	all := operations(s)
	startProcesses(b, s, "hammer", 1)
	for _, name := range beside {
		operation := all[name]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				operation()
			}
		})
	}
}

// New keys are the slow case of the limiter.
func BenchmarkNewKey(b *testing.B) {
	s := newShared(b, 64)
	limiter := Must(s.RateLimiter("limiter", RateLimit{Events: 1_000_000_000, Per: time.Second, Burst: 1, Keys: 1 << 16}))
	key, clock := []byte("00000000"), s.Now()
	for b.Loop() {
		clock++
		for i := 0; ; i++ {
			if key[i]++; key[i] != 0 {
				break
			}
		}
		limiter.AllowAt(key, 1, clock)
	}
}
