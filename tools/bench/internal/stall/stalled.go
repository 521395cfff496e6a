package stall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// Kinds of bodies.
const (
	fileBody   = "file"
	memoryBody = "memory"
)

// stalledTarget is the most that all stalled clients of a file may cost.
const stalledTarget = 200 << 20

func stallAll(ctx context.Context, o options, root string) (sections []report.Section, failures error) {
	body := content(int(o.size))
	if err := os.WriteFile(filepath.Join(root, fileName), body, 0o600); err != nil {
		return nil, err
	}
	sum, _, err := checksum(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	verdicts := report.Section{
		Title: fmt.Sprintf("%d clients that stall in a body of %v, %s", o.clients, o.size, o.over()),
		Head:  []string{"body", "bytes/client", "peak MiB", "target", "clients got MiB", "cut after s", "all cut"},
		Notes: []string{
			"Bytes per client and the peak are resident memory with the stalled clients, less what the server had before.",
			fmt.Sprintf("Cut after: from when all had stalled until the server had no connection left; its WriteTimeout is %v. "+
				"Then every client reads on, and must come to the end of its connection before the end of the body; "+
				"connections, descriptors and goroutines must be as before.", o.writeTimeout),
		},
	}
	for kind := range strings.SplitSeq(o.bodies, ",") {
		s, err := stallIn(ctx, o, root, kind, sum)
		if err != nil {
			return sections, errors.Join(failures, fmt.Errorf("%s: %w", kind, err))
		}
		sections = append(sections, s.phases(kind, o))
		verdicts.Rows = append(verdicts.Rows, s.row(kind))
		failures = errors.Join(failures, s.failure(kind))
	}
	return append(sections, verdicts), failures
}

// state is what a server has at one time.
type state struct {
	process.Memory
	gauges
	descriptors int
	sockets     int64 // bytes of all sockets' buffers in this machine's kernel
}

func stateOf(server *process.Server) (s state, err error) {
	if s.sockets, err = process.SocketMemory(); err != nil {
		return s, err
	}
	if s.Memory, err = server.Memory(); err != nil {
		return s, err
	}
	if s.descriptors, err = server.Descriptors(); err != nil {
		return s, err
	}
	return s, server.Ask(gaugesCommand, &s.gauges)
}

// stalled is what a server had and did with clients that stalled.
type stalled struct {
	clients                 int64
	before, held, collected state
	ended, last             state // when no connection was left, and when all clients had read on
	cutAfter                time.Duration
	result                  stallResult
}

// stallIn measures clients that stall in a body of a kind.
func stallIn(ctx context.Context, o options, root, kind string, sum uint32) (s stalled, err error) {
	s.clients = int64(o.clients)
	config, target := serveConfig{Root: root, WriteTimeout: o.writeTimeout}, bodyFromFile
	if kind == memoryBody {
		config.InMemory, target = int(o.size), bodyInMemory
	}
	server, err := startServer(ctx, o, config)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	command.Progress("%s, warming up", kind)
	if err := warmUp(ctx, o, server, target, sum); err != nil {
		return s, err
	}
	if s.before, err = stateOf(server); err != nil {
		return s, err
	}
	command.Progress("%s, %d clients", kind, o.clients)
	stall, err := startStall(ctx, stallConfig{
		Addr: server.Addr, Target: target, Conns: o.clients, Size: int64(o.size), Read: int64(o.size) / 10, TLS: o.tls,
	})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stall.Stop()) }()
	begin := time.Now()
	if s.held, err = stateOf(server); err != nil {
		return s, err
	}
	if s.held.Connections != o.clients {
		return s, fmt.Errorf("the server has %d connections when all %d have stalled: should WriteTimeout be longer than %v?", s.held.Connections, o.clients, o.writeTimeout)
	}
	if err := server.Settle(); err != nil {
		return s, err
	}
	if s.collected, err = stateOf(server); err != nil {
		return s, err
	}
	command.Progress("%s, waiting for the clients to be cut", kind)
	if s.ended, err = waitFor(ctx, server, o.writeTimeout+o.patience, func(now state) bool { return now.Connections == 0 }); err != nil {
		return s, err
	}
	s.cutAfter = time.Since(begin)
	if s.result, err = stall.drain(); err != nil {
		return s, err
	}
	if err := server.Settle(); err != nil {
		return s, err
	}
	s.last, err = waitFor(ctx, server, o.patience, func(now state) bool { return s.before.leaksOf(now) == nil })
	return s, err
}

// warmUp has the server send the body once, to the end: what that allocates is
// not what stalled clients cost. It must be the body.
func warmUp(ctx context.Context, o options, server *process.Server, target string, sum uint32) error {
	warm, err := transferAll(ctx, transferConfig{Addr: server.Addr, Target: target, Size: int64(o.size), Parallel: 1, TLS: o.tls})
	if err != nil {
		return err
	}
	if warm.Sums[0] != sum {
		return errors.New("the server sends another body")
	}
	if _, err := waitFor(ctx, server, o.patience, func(now state) bool { return now.Connections == 0 }); err != nil {
		return err
	}
	if err := server.Settle(); err != nil {
		return err
	}
	return server.ResetPeak()
}

// waitFor waits until what the server has is enough, or patience is at its end.
func waitFor(ctx context.Context, server *process.Server, patience time.Duration, isEnough func(state) bool) (now state, err error) {
	for end := time.Now().Add(patience); ; {
		if now, err = stateOf(server); err != nil || isEnough(now) || time.Now().After(end) {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// leaksOf says what there is more of than before, beyond what a server may keep
// after its first connections: the poller's descriptors, and idle workers.
func (before state) leaksOf(now state) error {
	const keptDescriptors, keptGoroutines = 8, 16
	switch {
	case now.Connections > before.Connections:
		return fmt.Errorf("the server still has %d connections", now.Connections)
	case now.descriptors > before.descriptors+keptDescriptors:
		return fmt.Errorf("the server has %d descriptors, and had %d", now.descriptors, before.descriptors)
	case now.Goroutines > before.Goroutines+keptGoroutines:
		return fmt.Errorf("the server has %d goroutines, and had %d", now.Goroutines, before.Goroutines)
	}
	return nil
}

// peak returns by how much the server's memory was larger than before, at most.
func (s stalled) peak() int64 { return s.last.Peak - s.before.Resident }

// cut says whether all clients were cut.
func (s stalled) cut() error {
	if r := s.result; int64(r.Cut) != s.clients {
		return fmt.Errorf("%d of %d clients were cut, %d got everything, %d were still connected; other ends: %q", r.Cut, s.clients, r.Complete, r.Open, r.Other)
	}
	return s.before.leaksOf(s.last)
}

// meets says whether the clients cost no more than they may: "-" where there is
// no such target.
func (s stalled) meets(kind string) string {
	switch {
	case kind != fileBody:
		return "-"
	case s.peak() < stalledTarget:
		return "< 200 MiB met"
	default:
		return "< 200 MiB missed"
	}
}

func (s stalled) failure(kind string) (err error) {
	if kind == fileBody && s.peak() >= stalledTarget {
		err = fmt.Errorf("%s: stalled clients cost %s MiB, want less than 200", kind, mebibytes(s.peak()))
	}
	if notCut := s.cut(); notCut != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", kind, notCut))
	}
	return err
}

func (s stalled) row(kind string) []string {
	verdict := "met"
	if err := s.cut(); err != nil {
		verdict = "missed: " + err.Error()
	}
	return []string{
		kind, fmt.Sprint((s.held.Resident - s.before.Resident) / s.clients), mebibytes(s.peak()), s.meets(kind),
		mebibytes(s.result.LeastRead) + "–" + mebibytes(s.result.MostRead), fmt.Sprintf("%.1f", s.cutAfter.Seconds()), verdict,
	}
}

// phases is the table of what the server had.
func (s stalled) phases(kind string, o options) report.Section {
	section := report.Section{
		Title: fmt.Sprintf("The server's process, %s, body: %s", o.over(), kind),
		Head:  []string{"", "RSS MiB", "PSS MiB", "heap MiB", "stacks MiB", "goroutines", "descriptors", "connections", "all sockets MiB"},
		Notes: []string{"Before: after one complete answer. In the end: when the clients have read on, after GC. The last column is the kernel's, of all processes of this machine."},
	}
	for _, phase := range []struct {
		name string
		state
	}{{"before", s.before}, {"stalled", s.held}, {"after GC", s.collected}, {"cut", s.ended}, {"in the end", s.last}} {
		section.Rows = append(section.Rows, []string{
			phase.name, mebibytes(phase.Resident), mebibytes(phase.Proportional), mebibytes(phase.Heap), mebibytes(phase.Stack),
			fmt.Sprint(phase.Goroutines), fmt.Sprint(phase.descriptors), fmt.Sprint(phase.Connections), mebibytes(phase.sockets),
		})
	}
	return section
}
