package shared_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

// A counter counts in all processes. The segment here belongs to the test; programs
// use shared.Default().
func Example() {
	segment := shared.Must(shared.New(shared.Options{Size: 1 << 20, Processes: 4, Local: true}))
	hits := shared.Must(segment.Counter("hits"))
	hits.Inc()
	hits.Add(2)
	fmt.Println(hits.Value())
	// Output: 3
}

func ExampleSegment_RateLimiter() {
	segment := shared.Must(shared.New(shared.Options{Local: true}))
	logins := shared.Must(segment.RateLimiter("logins", shared.RateLimit{Events: 3, Per: time.Minute}))
	address := []byte("192.0.2.1")
	for range 4 {
		isAllowed, retryAfter := logins.Allow(address)
		fmt.Println(isAllowed, retryAfter.Round(time.Second))
	}
	// Output:
	// true 0s
	// true 0s
	// true 0s
	// false 20s
}

func ExampleCache() {
	segment := shared.Must(shared.New(shared.Options{Local: true}))
	pages := shared.Must(segment.Cache("pages", shared.CacheOptions{Size: 4 << 20, MaxEntry: 2000}))
	key := []byte("/about")
	if err := pages.Set(key, []byte("<h1>About</h1>"), time.Minute); err != nil {
		fmt.Println(err)
	}
	page, isFound := pages.Get(nil, key)
	fmt.Println(string(page), isFound)
	// Output: <h1>About</h1> true
}

// Call this in every worker. One of them runs the jobs, and another one when it dies.
func ExampleLease_Lead() {
	segment := shared.Must(shared.New(shared.Options{Local: true}))
	lease := shared.Must(segment.Lease("jobs", 0))
	_ = lease.Lead(context.Background(), func(context.Context) error {
		fmt.Println("this process leads:", lease.Held())
		return nil
	})
	// Output: this process leads: true
}

func ExampleConfig() {
	segment := shared.Must(shared.New(shared.Options{Local: true}))
	settings := shared.Must(segment.Config("settings", 4096))
	if err := settings.Store([]byte(`{"theme":"dark"}`)); err != nil {
		fmt.Println(err)
	}
	data, version := settings.Load(nil)
	fmt.Println(string(data), version)
	// Output: {"theme":"dark"} 1
}

func ExampleHistogram() {
	segment := shared.Must(shared.New(shared.Options{Local: true}))
	latency := shared.Must(segment.Histogram("latency"))
	for milliseconds := range 1000 {
		latency.RecordDuration(time.Duration(milliseconds) * time.Millisecond)
	}
	snapshot := latency.Snapshot()
	fmt.Println(snapshot.Count(), time.Duration(snapshot.Quantile(0.99)).Round(50*time.Millisecond))
	// Output: 1000 1s
}
