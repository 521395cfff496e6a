package prefork

import (
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/health"
	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// HealthHandler returns a handler for the probes of an orchestrator, such as
// Kubernetes, about a Prefork or a Single. It is meant for a private address, such as
// the master's Admin:
//
//	/healthz   200 while the process answers
//	/readyz    200 while a worker serves; 503 from the beginning of the end
//	           (ShutdownDelay), while SIGWINCH has paused the fleet, and before the
//	           first worker serves
//	/startupz  200 as soon as a worker serves, and from the time when all have
//
// The body of a 503 is the reason. Other paths get 404, other methods than GET and
// HEAD 405.
func HealthHandler(s Source) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		if !health.Serve(ctx, func() health.State { return healthOf(s.Status()) }) {
			ctx.NotFound()
		}
	}
}

// defaultAdmin is the handler of Admin if AdminHandler is nil.
func defaultAdmin(s Source) sluice.RequestHandler {
	status, profiles := StatusHandler(s), ProfileHandler(s)
	return func(ctx *sluice.RequestCtx) {
		switch {
		case health.Serve(ctx, func() health.State { return healthOf(s.Status()) }):
		case strings.HasPrefix(string(ctx.Path()), profileWorkers):
			profiles(ctx)
		default:
			status(ctx)
		}
	}
}

// healthOf returns what a status means for probes.
func healthOf(s Status) health.State {
	state := health.State{HasStarted: s.Started}
	switch {
	case s.Stopping:
		state.Problem = "stopping"
	case s.Paused:
		state.Problem = "paused: SIGHUP starts the workers again"
	case !s.isServed():
		state.Problem = "no worker serves"
	}
	return state
}

// isServed reports whether a worker serves.
func (s *Status) isServed() bool {
	for i := range s.Workers {
		if s.Workers[i].Phase == supervise.PhaseReady.String() {
			return true
		}
	}
	return false
}
