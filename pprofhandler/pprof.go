// Package pprofhandler serves the profiles of package runtime/pprof, as
// net/http/pprof does: for "go tool pprof" and for reading. It imports that package, which
// also registers its handlers with http.DefaultServeMux: do not serve that one to the public.
package pprofhandler

import (
	"bytes"
	nethttp "net/http/pprof"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

const prefix = "/debug/pprof/"

// PprofHandler answers requests for paths below /debug/pprof/:
//
//   - the path itself lists the profiles,
//   - cmdline is the command line, its arguments separated by NUL,
//   - profile is a profile of the processor for the argument seconds, 30 by default,
//   - trace is an execution trace for the argument seconds, 1 by default,
//   - symbol names the functions at the addresses in the query or in the body of a POST,
//   - the name of a profile of runtime/pprof, as heap, goroutine, allocs, block,
//     mutex or threadcreate, is that profile. With debug=1 or 2 it is text, with
//     gc=1 heap runs a garbage collection before, and with seconds it is the
//     difference between that many seconds from now and now.
//
// Everything else is answered 404. What takes time ends when the client goes
// away or the server shuts down. The seconds are not bounded by the server's
// WriteTimeout, which begins when the profile is written.
//
// Profiles tell much about the process, and cost it time. The handler belongs on
// an address, or behind a check, that not everybody passes.
func PprofHandler(ctx *sluice.RequestCtx) {
	path := string(ctx.Path())
	name, isBelow := strings.CutPrefix(path, prefix)
	switch {
	case path == strings.TrimSuffix(prefix, "/"):
		writeIndex(ctx, "./pprof/")
	case isBelow && name == "":
		writeIndex(ctx, "./")
	case !isBelow:
		reply(ctx, sluice.StatusNotFound, "Unknown profile")
	case name == "cmdline":
		fasthttpadaptor.NewFastHTTPHandlerFunc(nethttp.Cmdline)(ctx)
	case name == "profile":
		record(ctx, name, secondsOr(ctx, 30), "CPU profiling", startCPUProfile, pprof.StopCPUProfile)
	case name == "trace":
		record(ctx, name, secondsOr(ctx, 1), "tracing", startTrace, trace.Stop)
	case name == "symbol":
		fasthttpadaptor.NewFastHTTPHandlerFunc(nethttp.Symbol)(ctx)
	default:
		fasthttpadaptor.NewFastHTTPHandler(nethttp.Handler(name))(ctx)
	}
}

// reply replaces the response by one with text, which nothing may take for HTML.
func reply(ctx *sluice.RequestCtx, status int, text string) {
	ctx.Error(text+"\n", status)
	ctx.Response.Header.Set(sluice.HeaderXContentTypeOptions, "nosniff")
}

func answerText(ctx *sluice.RequestCtx, text string) {
	reply(ctx, sluice.StatusOK, "")
	ctx.SetBodyString(text)
}

// answerFile answers with something to be saved under a name.
func answerFile(ctx *sluice.RequestCtx, name string, content []byte) {
	reply(ctx, sluice.StatusOK, "")
	ctx.SetContentType("application/octet-stream")
	ctx.Response.Header.Set(sluice.HeaderContentDisposition, `attachment; filename="`+name+`"`)
	ctx.Response.SetBodyRaw(content)
}

// secondsOr returns the argument seconds, or a default if it is none or not
// positive.
func secondsOr(ctx *sluice.RequestCtx, byDefault float64) time.Duration {
	seconds, err := strconv.ParseFloat(string(ctx.QueryArgs().Peek("seconds")), 64)
	if err != nil || !(seconds > 0) {
		seconds = byDefault
	}
	return asDuration(seconds)
}

// asDuration keeps what is too long, and what is no number, from overflowing.
func asDuration(seconds float64) time.Duration {
	const longest = 24 * 60 * 60
	return time.Duration(min(seconds, longest) * float64(time.Second))
}

// wait returns after d, and before if nobody wants the answer any more.
func wait(ctx *sluice.RequestCtx, d time.Duration) (wanted bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func startCPUProfile(w *bytes.Buffer) error { return pprof.StartCPUProfile(w) }

func startTrace(w *bytes.Buffer) error { return trace.Start(w) }

// record answers with what is recorded from start to stop.
func record(ctx *sluice.RequestCtx, name string, d time.Duration, what string, start func(w *bytes.Buffer) error, stop func()) {
	var content bytes.Buffer
	if err := start(&content); err != nil {
		reply(ctx, sluice.StatusInternalServerError, "Could not enable "+what+": "+err.Error())
		return
	}
	func() {
		defer stop() // whatever happens, for the next one could not start
		wait(ctx, d)
	}()
	answerFile(ctx, name, content.Bytes())
}
