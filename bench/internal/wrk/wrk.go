// Package wrk puts load on a server with the program wrk.
package wrk

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Load is what wrk sends, with one thread.
type Load struct {
	Conns   int
	Depth   int  // pipelined requests; 0 and 1: none
	Close   bool // a connection per request
	Browser bool // a head of 12 fields instead of 3
}

// Errors counts what went wrong in a run.
type Errors struct {
	Connect, Read, Write, Timeout int
	Status                        int // answers other than 2xx and 3xx
}

// Sum returns how many errors there were.
func (e Errors) Sum() int { return e.Connect + e.Read + e.Write + e.Timeout + e.Status }

// Add returns the sum of e and other, kind by kind.
func (e Errors) Add(other Errors) Errors {
	return Errors{
		Connect: e.Connect + other.Connect, Read: e.Read + other.Read, Write: e.Write + other.Write,
		Timeout: e.Timeout + other.Timeout, Status: e.Status + other.Status,
	}
}

// String names the kinds that occurred: "3 read, 1 timeout"; "0" if none did.
func (e Errors) String() string {
	var parts []string
	for _, kind := range []struct {
		count int
		name  string
	}{{e.Connect, "connect"}, {e.Read, "read"}, {e.Write, "write"}, {e.Timeout, "timeout"}, {e.Status, "status"}} {
		if kind.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", kind.count, kind.name))
		}
	}
	if parts == nil {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// A Result is one run of wrk against one server.
type Result struct {
	Requests      int
	Duration      time.Duration
	Errors        Errors
	P50, P99, Max time.Duration
}

//go:embed load.lua
var loadScript string

// A Runner runs wrk.
type Runner struct {
	script string
	cpu    int
}

// NewRunner returns a Runner for one CPU. Close it after use.
func NewRunner(cpu int) (*Runner, error) {
	// wrk reads the script once per thread, so that it cannot be a pipe.
	f, err := os.CreateTemp("", "load*.lua")
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(loadScript)
	return &Runner{script: f.Name(), cpu: cpu}, errors.Join(err, f.Close())
}

// Close removes what the Runner needed.
func (r *Runner) Close() error { return os.Remove(r.script) }

// Run puts the load on the server at addr for whole seconds.
func (r *Runner) Run(ctx context.Context, load Load, addr string, duration time.Duration) (Result, error) {
	return r.RunTarget(ctx, load, addr, "/", duration)
}

var errResult = errors.New("cannot read wrk's result")

// parse reads the line that load.lua prints at the end.
func parse(output string) (Result, error) {
	_, line, found := strings.Cut(output, "\nRESULT ")
	if !found {
		return Result{}, fmt.Errorf("%w:\n%s", errResult, output)
	}
	line, _, _ = strings.Cut(line, "\n")
	var r Result
	var duration, p50, p99, longest int64 // microseconds
	e := &r.Errors
	_, err := fmt.Sscan(line, &r.Requests, &duration, &e.Connect, &e.Read, &e.Write, &e.Timeout, &e.Status, &p50, &p99, &longest)
	if err != nil || duration <= 0 {
		return Result{}, fmt.Errorf("%w: %q: %w", errResult, line, err)
	}
	if r.Requests == 0 {
		return Result{}, fmt.Errorf("%w: no request was answered:\n%s", errResult, output)
	}
	r.Duration = time.Duration(duration) * time.Microsecond
	r.P50, r.P99, r.Max = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond, time.Duration(longest)*time.Microsecond
	return r, nil
}
