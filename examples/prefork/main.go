// Command prefork serves with several processes, which share a counter and a
// limit.
//
//	go build -o /tmp/prefork ./examples/prefork && /tmp/prefork
//	curl http://127.0.0.1:8080/             # repeat it: several workers answer
//	kill -9 PID                             # of a worker: the master replaces it
//	examples/prefork/rolling-restart.sh     # replaces all workers under load
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	workers := flag.Int("workers", 0, "number of worker processes; 0: one for each CPU")
	flag.Parse()
	// Every process runs this, until ListenAndServe.
	a := newApp(shared.Default())
	p := prefork.New(&sluice.Server{Handler: a.handle})
	p.Workers = *workers
	p.OnWorkerStart = func(w prefork.WorkerInfo) error {
		a.worker = w
		return nil
	}
	p.OnFleetReady = func() { log.Printf("pid %d, listening on http://%v", os.Getpid(), p.Addrs()[0]) }
	if err := p.ListenAndServe(*addr); err != nil {
		log.Fatal(err)
	}
}

// app is the state of a worker.
type app struct {
	worker prefork.WorkerInfo
	hits   *shared.Counter     // of all workers together
	limit  *shared.RateLimiter // of /limited, likewise
}

// newApp opens the values that all processes share.
func newApp(s *shared.Segment) *app {
	return &app{
		hits:  shared.Must(s.Counter("hits")),
		limit: shared.Must(s.RateLimiter("limited", shared.RateLimit{Events: 5, Per: time.Second})),
	}
}

func (a *app) handle(ctx *sluice.RequestCtx) {
	if string(ctx.Path()) == "/limited" {
		if isAllowed, retryAfter := a.limit.Allow([]byte(ctx.RemoteIP().String())); !isAllowed {
			ctx.Error("too many requests", sluice.StatusTooManyRequests)
			seconds := int((retryAfter + time.Second - 1) / time.Second)
			ctx.Response.Header.Set(sluice.HeaderRetryAfter, strconv.Itoa(seconds))
			return
		}
	}
	a.hits.Inc()
	fmt.Fprintf(ctx, "worker %d.%d, pid %d: request %d of all workers\n",
		a.worker.Slot, a.worker.Generation, os.Getpid(), a.hits.Value())
}
