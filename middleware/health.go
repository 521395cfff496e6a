package middleware

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/health"
)

const (
	// healthAge is how long an answer of a readiness check is used.
	healthAge = time.Second
	// healthPatience is how long a check may run before the server counts as not ready.
	healthPatience = 10 * time.Second
)

// Health returns a middleware that answers the probes of an orchestrator, such as Kubernetes:
//
//   - /healthz with 200, whenever it answers;
//   - /readyz with 200 while ready returns nil, and otherwise 503;
//   - /startupz likewise, until ready has returned nil once, and then with 200.
//
// ready may ask a database, and is called at most once a second and never concurrently, however
// many probes there are: anybody can send them. A probe that comes meanwhile gets the last
// answer, and 503 when ready has not returned for ten seconds. The error is logged when the server
// stops being ready; clients do not see it. nil: the server is always ready.
//
// Put it outside authentication and rate limits. prefork.HealthHandler has the state of all
// workers instead.
func Health(ready func() error) func(sluice.RequestHandler) sluice.RequestHandler {
	r := &readiness{ready: ready}
	r.last.Store(&health.State{Problem: "starting"})
	if ready == nil {
		r.ready = func() error { return nil }
	}
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			if !health.Serve(ctx, func() health.State { return r.state(ctx) }) {
				h(ctx)
			}
		}
	}
}

type readiness struct {
	ready func() error
	last  atomic.Pointer[health.State]
	begun atomic.Pointer[time.Time] // when ready was called; nil: it has returned

	mu    sync.Mutex // held while ready runs
	asked time.Time  // when it ran last
}

func (r *readiness) state(ctx *sluice.RequestCtx) health.State {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if r.asked.IsZero() || time.Since(r.asked) >= healthAge {
			r.ask(ctx)
			r.asked = time.Now()
		}
	}
	last := *r.last.Load()
	if begun := r.begun.Load(); begun != nil && time.Since(*begun) >= healthPatience {
		last.Problem = "the check of readiness does not return"
	}
	return last
}

// ask calls ready; mu is held.
func (r *readiness) ask(ctx *sluice.RequestCtx) {
	begin := time.Now()
	r.begun.Store(&begin)
	defer r.begun.Store(nil)
	before := r.last.Load()
	now := health.State{HasStarted: true}
	if err := r.ready(); err != nil {
		now = health.State{HasStarted: before.HasStarted, Problem: "not ready"}
		if before.Problem != now.Problem {
			ctx.Logger().Printf("not ready: %v", err)
		}
	}
	r.last.Store(&now)
}
