// Package health answers the probes of an orchestrator, such as Kubernetes: whether a
// server is alive, whether it has started, and whether it should get new connections.
package health

import "github.com/sluicehttp/sluice"

// The paths of probes.
const (
	// Live is answered with 200 whenever it is answered at all.
	Live = "/healthz"
	// Ready is answered with 200 while the server should get new connections.
	Ready = "/readyz"
	// Started is answered with 200 once the server has been ready.
	Started = "/startupz"
)

// A State is what a server knows about itself.
type State struct {
	// HasStarted reports whether the server has been ready at least once.
	HasStarted bool
	// Problem is why the server should get no new connections, in a few words. It is
	// empty if the server is ready.
	Problem string
}

// IsProbe reports whether a path is that of a probe.
func IsProbe(path []byte) bool {
	switch string(path) {
	case Live, Ready, Started:
		return true
	}
	return false
}

// Serve answers ctx, and returns true, if its path is that of a probe. An answer
// other than 200 is 503 with the reason. state is called for probes only; it may be
// called concurrently and should not block.
func Serve(ctx *sluice.RequestCtx, state func() State) bool {
	if !IsProbe(ctx.Path()) {
		return false
	}
	problem := ""
	switch string(ctx.Path()) {
	case Ready:
		problem = state().Problem
	case Started:
		if s := state(); !s.HasStarted {
			problem = s.Problem // none: it is ready for the first time
		}
	}
	switch {
	case !ctx.IsGet() && !ctx.IsHead():
		ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
		ctx.Response.Header.Set(sluice.HeaderAllow, "GET, HEAD")
	case problem != "":
		ctx.Error(problem+"\n", sluice.StatusServiceUnavailable)
	default:
		ctx.SuccessString("text/plain; charset=utf-8", "ok\n")
	}
	ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-store")
	return true
}
