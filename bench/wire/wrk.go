package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A sample is one run of wrk against one server.
type sample struct {
	requests int
	failures int // socket errors, time-outs and answers other than 200
	duration time.Duration
	p99      time.Duration
	cpu      time.Duration // of the server
}

//go:embed load.lua
var loadScript string

// writeScript puts the script for wrk into a new temporary file: wrk reads it
// once per thread, so that it cannot be a pipe.
func writeScript() (name string, err error) {
	f, err := os.CreateTemp("", "load*.lua")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(loadScript)
	return f.Name(), errors.Join(err, f.Close())
}

// runWrk runs wrk with the script on CPU 1.
func runWrk(ctx context.Context, script string, c *wireCase, addr string, duration time.Duration) (sample, error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", "1", "wrk", "-t", "1", "-c", strconv.Itoa(c.conns),
		"-d", strconv.Itoa(int(duration/time.Second))+"s", "-s", script, "http://"+addr+"/")
	cmd.Env = append(cmd.Environ(), "LOAD_DEPTH="+strconv.Itoa(c.depth), "LOAD_CLOSE="+strconv.FormatBool(c.close))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parseResult(string(out))
}

var errResult = errors.New("cannot read wrk's result")

// parseResult reads the line that load.lua prints at the end.
func parseResult(output string) (sample, error) {
	_, line, found := strings.Cut(output, "\nRESULT ")
	if !found {
		return sample{}, fmt.Errorf("%w:\n%s", errResult, output)
	}
	line, _, _ = strings.Cut(line, "\n")
	var requests, failures int
	var duration, p99 int64 // microseconds
	if _, err := fmt.Sscan(line, &requests, &failures, &duration, &p99); err != nil || duration <= 0 {
		return sample{}, fmt.Errorf("%w: %q: %w", errResult, line, err)
	}
	if requests == 0 {
		return sample{}, fmt.Errorf("%w: no request was answered:\n%s", errResult, output)
	}
	return sample{
		requests: requests, failures: failures,
		duration: time.Duration(duration) * time.Microsecond, p99: time.Duration(p99) * time.Microsecond,
	}, nil
}
