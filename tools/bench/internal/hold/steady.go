package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

func holdAll(ctx context.Context, o options) (report.Section, error) {
	section := report.Section{
		Title: fmt.Sprintf("%d connections, each with a request every %v for %v", o.conns, o.period, o.duration),
		Head:  []string{"server", "answered", "errors", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "CPU µs/req", "bytes/connection"},
		Notes: []string{"Latencies run from when a request was due. Memory is the server's anonymous memory with the load, less what it had before."},
	}
	for _, kind := range o.kinds {
		command.Progress("%s", kind)
		h, err := hold(ctx, o, kind)
		if err != nil {
			return section, fmt.Errorf("%s: %w", kind, err)
		}
		section.Rows = append(section.Rows, h.row(kind))
	}
	return section, nil
}

// steady is what a server did with connections that were held.
type steady struct {
	result load.Result
	conns  int
	cpu    time.Duration
	memory int64 // bytes, of all connections
}

func hold(ctx context.Context, o options, kind string) (h steady, err error) {
	server, err := startServer(ctx, kind)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := server.Settle(); err != nil { // it has started when it answers
		return h, err
	}
	before, err := server.AnonymousMemory()
	if err != nil {
		return h, err
	}
	generator, err := load.Start(ctx, process.Options{CPU: process.AnyCPU, Urgent: true})
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	result, started, ended, err := load.Measure(generator, load.Load{
		Addr: server.Addr, Request: load.Get(peers.Target, ""), Conns: o.conns, Duration: o.duration,
		Rate: float64(o.conns) / o.period.Seconds(),
	}, server.CPU)
	if err != nil {
		return h, err
	}
	memory, err := server.AnonymousMemory()
	return steady{result: result, conns: o.conns, cpu: ended - started, memory: memory - before}, err
}

func (h steady) row(kind string) []string {
	r := h.result
	row := []string{kind, fmt.Sprint(r.Requests), r.Errors()}
	for _, percent := range []float64{50, 99, 99.9, 100} {
		row = append(row, latency.Milliseconds(r.Latency.Percentile(percent)))
	}
	return append(row,
		fmt.Sprintf("%.1f", float64(h.cpu.Nanoseconds())/1e3/float64(max(r.Requests, 1))),
		fmt.Sprint(h.memory/int64(h.conns)))
}
