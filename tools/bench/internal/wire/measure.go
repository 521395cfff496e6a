package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/floor"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A measurement is under way, or done.
type measurement struct {
	options
	folder string            // temporary files
	floor  string            // the C program; "": there is none
	noGCC  error             // why not
	fields map[string]string // names of each kind's header fields in the first case
}

// measure runs the cases.
func measure(ctx context.Context, o options) (*measurement, error) {
	m := &measurement{options: o, fields: make(map[string]string)}
	return m, m.measureCases(ctx)
}

// measureCases runs the cases, one after the other: no server disturbs the cache
// of another case's, and none inherits another's memory.
func (m *measurement) measureCases(ctx context.Context) (err error) {
	if err := command.Require("taskset"); err != nil {
		return err
	}
	if m.folder, err = os.MkdirTemp("", "wire"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.folder)) }()
	if slices.Contains(m.kinds, floorKind) {
		m.floor, m.noGCC = floor.Build(ctx, m.folder)
		if m.noGCC != nil && !errors.Is(m.noGCC, process.ErrNoCompiler) {
			return m.noGCC
		}
	}
	for i, c := range m.cases {
		if err := m.measureCase(ctx, c, fmt.Sprintf("case %d/%d, %s", i+1, len(m.cases), c.label())); err != nil {
			return fmt.Errorf("%s: %w", c.label(), err)
		}
	}
	return nil
}

// measureCase starts a case's servers, runs its rounds, and stops them.
func (m *measurement) measureCase(ctx context.Context, c *wireCase, title string) (err error) {
	command.Progress("%s: starting servers", title)
	servers, err := m.build(ctx, c)
	defer func() {
		for _, server := range servers {
			err = errors.Join(err, server.stop())
		}
	}()
	if err != nil {
		return err
	}
	cpu := clientCPU
	if c.shared {
		cpu = process.AnyCPU
	}
	generator, err := load.Start(ctx, process.Options{CPU: cpu, Procs: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	if c.half {
		if err := m.halve(c, servers, generator); err != nil {
			return err
		}
	}
	var kinds []string
	for _, server := range servers {
		kinds = append(kinds, server.kind)
	}
	c.samples, err = command.Rounds(title, m.rounds, kinds, func(i int, warmsUp bool) (sample, error) {
		return m.turn(c, servers[i], generator, warmsUp)
	})
	return err
}

// build starts the servers, each with the idle connections that the case wants.
// What it returns is to be stopped even if it failed.
func (m *measurement) build(ctx context.Context, c *wireCase) (servers []*contender, err error) {
	o := startOptions{cpu: serverCPU, procs: 1, folder: m.folder, others: m.others, before: m.before, floor: m.floor, noGCC: m.noGCC}
	if c.shared || c.apart {
		o.procs = runtime.NumCPU()
	}
	if c.shared {
		o.cpu = process.AnyCPU
	}
	for _, kind := range m.kinds {
		server, err := start(ctx, kind, c, o)
		if err == nil {
			if err = c.learn(server); err != nil {
				if server.isOther && c.peer != (peers.Options{}) { // it need not have every case
					err = fmt.Errorf("%w: %w", errAnswer, err)
				}
				err = errors.Join(err, server.stop())
			}
		}
		if isAbsence(err) {
			c.absent[kind] = err.Error()
			continue
		}
		if err != nil {
			return servers, fmt.Errorf("%s: %w", kind, err)
		}
		servers = append(servers, server)
		c.sizes[kind] = server.size
		if m.fields[kind] == "" {
			m.fields[kind] = server.fields
		}
		if c.idle > 0 {
			if c.perIdle[kind], err = c.holdIdle(ctx, server); err != nil {
				return servers, fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	return servers, nil
}

// halve gives a case half of the rate that the baseline reaches.
func (m *measurement) halve(c *wireCase, servers []*contender, generator *load.Generator) error {
	i := slices.IndexFunc(servers, func(s *contender) bool { return s.kind == baseline })
	full, err := m.turn(c, servers[i], generator, false)
	c.load.Rate = full.Rate() / 2
	return err
}

// turn puts the load on a server once.
func (m *measurement) turn(c *wireCase, server *contender, generator *load.Generator, warmsUp bool) (s sample, err error) {
	l := c.load
	l.Addr, l.Request, l.Duration = server.addr, c.request(), m.duration
	if warmsUp {
		l.Duration = min(l.Duration, quickDuration)
	}
	result, before, after, err := load.Measure(generator, l, server.process.TreeUsage)
	if err != nil {
		return s, err
	}
	s.Result = result
	s.usage.Add(before, after)
	memory, err := server.process.TreeMemory()
	s.resident = memory.Resident
	return s, err
}
