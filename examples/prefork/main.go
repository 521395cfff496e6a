// Command prefork serves with several processes, which share a counter and a
// limit.
//
//	go build -o /tmp/prefork ./examples/prefork && /tmp/prefork
//	curl http://127.0.0.1:8080/             # again and again: the workers take turns
//	kill -9 PID                             # of a worker: another one takes its place
//	examples/prefork/rolling-restart.sh     # replaces all of them under load
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
	// From here on every process does the same, until ListenAndServe.
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

// app is what a worker has.
type app struct {
	worker prefork.WorkerInfo
	hits   *shared.Counter     // of all workers together
	limit  *shared.RateLimiter // of /limited, likewise
}

// newApp takes the values that all processes have in common.
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
