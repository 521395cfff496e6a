package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

func churnAll(ctx context.Context, o options) (report.Section, error) {
	section := report.Section{
		Title: fmt.Sprintf("%d connections opened and closed, %d at a time, with a request on each", o.churn, o.width),
		Head:  []string{"server", "failed", "s", "descriptors", "goroutines", "KiB of memory", "leaks"},
		Notes: []string{
			"From before the first connection (memory: from after ten times as many as are open at a time) to after the last one, when the server has had time to give things back.",
			"A third each is closed by the client, closed by the server, and reset.",
		},
	}
	var leaks error
	for _, kind := range o.kinds {
		c, err := churn(ctx, o, kind)
		if err != nil {
			return section, errors.Join(leaks, fmt.Errorf("%s: %w", kind, err))
		}
		section.Rows = append(section.Rows, c.row(kind))
		if verdict := c.leaks(); verdict != noLeak || c.result.Failures > 0 {
			leaks = errors.Join(leaks, fmt.Errorf("%s: %d connections failed, leaks: %s", kind, c.result.Failures, verdict))
		}
	}
	return section, leaks
}

// holdings are what a server has.
type holdings struct {
	descriptors, goroutines int
	memory                  int64 // anonymous, in bytes
}

func holdingsOf(server *servers.Server) (h holdings, err error) {
	if err := server.Settle(); err != nil {
		return h, err
	}
	if h.descriptors, err = server.Descriptors(); err != nil {
		return h, err
	}
	if h.goroutines, err = server.Goroutines(); err != nil {
		return h, err
	}
	h.memory, err = server.AnonymousMemory()
	return h, err
}

// churned is what a server had before and after many connections.
type churned struct {
	before, after holdings
	result        load.Result
}

func churn(ctx context.Context, o options, kind string) (c churned, err error) {
	server, err := startServer(ctx, kind)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	fresh, err := holdingsOf(server)
	if err != nil {
		return c, err
	}
	command.Progress("%s, warming up", kind)
	if c.result, err = openAndClose(ctx, server.Addr, 10*o.width, o.width); err != nil {
		return c, err
	}
	if c.result.Failures > 0 {
		return c, fmt.Errorf("of the first connections failed %s", c.result.Errors())
	}
	warmed, err := waitFor(ctx, server, o.patience, func(h holdings) bool {
		h.memory = fresh.memory
		return fresh.leaksOf(h) == noLeak
	})
	if err != nil {
		return c, err
	}
	// Descriptors and goroutines go back to those of a server that has served
	// nothing; of its memory, pools are kept that the first connections fill.
	c.before = holdings{descriptors: fresh.descriptors, goroutines: fresh.goroutines, memory: warmed.memory}
	command.Progress("%s, %d connections", kind, o.churn)
	if c.result, err = openAndClose(ctx, server.Addr, o.churn, o.width); err != nil {
		return c, err
	}
	command.Progress("%s, waiting for it to give things back", kind)
	c.after, err = waitFor(ctx, server, o.patience, func(h holdings) bool {
		return c.before.leaksOf(h) == noLeak
	})
	return c, err
}

// openAndClose opens and closes at least so many connections, width at a time, with
// a request on each.
func openAndClose(ctx context.Context, addr string, conns, width int) (sum load.Result, err error) {
	generator, err := load.Start(ctx, process.Options{CPU: process.AnyCPU})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	third := (conns + 2) / 3
	closed := load.Load{Conns: width, Requests: int64(width), Repeat: (third + width - 1) / width, Request: load.Get(peers.Target, "")}
	byServer := load.Load{Conns: width, Requests: int64(third), Close: true, Request: load.Get(peers.Target, "Connection: close\r\n")}
	reset := load.Load{Conns: width, Requests: int64(third), Close: true, Request: closed.Request}
	for _, l := range []load.Load{closed, byServer, reset} {
		l.Addr = addr
		result, err := generator.Put(l)
		if err != nil {
			return sum, err
		}
		sum.Add(result)
	}
	return sum, nil
}

// waitFor waits until what the server has is enough, or patience is at its end.
func waitFor(ctx context.Context, server *servers.Server, patience time.Duration, isEnough func(holdings) bool) (h holdings, err error) {
	for end := time.Now().Add(patience); ; {
		if h, err = holdingsOf(server); err != nil || isEnough(h) || time.Now().After(end) {
			return h, err
		}
		select {
		case <-ctx.Done():
			return h, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

const noLeak = "none"

// leaks names what the server has more of than before.
func (c churned) leaks() string { return c.before.leaksOf(c.after) }

// leaksOf names what there is more of in h, by more than what a server may keep
// after its first connections: the poller's descriptors, a few idle workers, and
// heap that is not packed as tightly. What leaks with every connection goes
// beyond that soon: 100 bytes do in 40,000 connections.
func (before holdings) leaksOf(h holdings) string {
	const (
		keptDescriptors = 8
		keptGoroutines  = 16
		keptMemory      = 4 << 20
	)
	leaks := ""
	for _, kind := range []struct {
		name string
		more bool
	}{
		{"descriptors", h.descriptors > before.descriptors+keptDescriptors},
		{"goroutines", h.goroutines > before.goroutines+keptGoroutines},
		{"memory", h.memory > before.memory+keptMemory},
	} {
		if !kind.more {
			continue
		}
		if leaks != "" {
			leaks += ", "
		}
		leaks += kind.name
	}
	if leaks == "" {
		return noLeak
	}
	return leaks
}

func (c churned) row(kind string) []string {
	fromTo := func(from, to int64) string { return fmt.Sprintf("%d → %d", from, to) }
	return []string{
		kind, c.result.Errors(), fmt.Sprintf("%.1f", c.result.Elapsed.Seconds()),
		fromTo(int64(c.before.descriptors), int64(c.after.descriptors)),
		fromTo(int64(c.before.goroutines), int64(c.after.goroutines)),
		fromTo(c.before.memory>>10, c.after.memory>>10),
		c.leaks(),
	}
}
