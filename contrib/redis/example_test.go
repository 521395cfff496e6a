package sluiceredis_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice"
	sluiceredis "github.com/sluicehttp/sluice/contrib/redis"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/shared"
)

// A limit of all machines together. While Redis is away, each machine has one of its own.
func ExampleStore_RateLimiter() {
	store, err := sluiceredis.New(&redis.UniversalOptions{Addrs: []string{"redis:6379"}}, sluiceredis.Options{OnError: func(err error) { log.Print(err) }})
	if err != nil {
		log.Fatal(err)
	}
	local := shared.Must(shared.Default().RateLimiter("api", shared.RateLimit{Events: 100, Per: time.Minute}))
	limit, err := store.RateLimiter("api", sluiceredis.RateLimit{Events: 100, Per: time.Minute, Away: local.Take})
	if err != nil {
		log.Fatal(err)
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }}
	server.Handler = middleware.RateLimit(limit, middleware.RateLimitOptions{})(server.Handler)
}

// A page that any machine has rendered serves all of them. Each machine keeps it for a second.
func ExampleStore_Cache() {
	store, err := sluiceredis.New(&redis.UniversalOptions{Addrs: []string{"redis:6379"}}, sluiceredis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	pages, err := store.Cache("pages", 64<<10)
	if err != nil {
		log.Fatal(err)
	}
	near := shared.Must(shared.Default().Cache("pages", shared.CacheOptions{MaxEntry: 64 << 10}))
	render := func(path []byte) []byte { return append([]byte("the page "), path...) }
	page := func(path []byte) []byte {
		if body, ok := near.Get(nil, path); ok {
			return body
		}
		body, ok := pages.Get(nil, path)
		if !ok {
			body = render(path)
			_ = pages.Set(path, body, time.Minute) // while Redis is away, each machine renders its own
		}
		_ = near.Set(path, body, time.Second)
		return body
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBody(page(ctx.Path())) }}
	_ = server.ListenAndServe(":8080")
}

// One machine of all runs the jobs.
func ExampleLease_Lead() {
	store, err := sluiceredis.New(&redis.UniversalOptions{Addrs: []string{"redis:6379"}}, sluiceredis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := store.Lease("jobs", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	_ = jobs.Lead(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // run the jobs until then
		return nil
	})
}
