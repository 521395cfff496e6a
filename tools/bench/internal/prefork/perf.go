package prefork

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
)

// calls are how often something happened per request, by the event's name.
type calls map[string]float64

// events are what perf counts, in the order of the table: all system calls, some
// of them, and what the scheduler did.
func events() []string {
	return []string{
		"raw_syscalls:sys_enter", "syscalls:sys_enter_epoll_pwait", "syscalls:sys_enter_futex", "syscalls:sys_enter_nanosleep",
		"syscalls:sys_enter_sched_yield", "syscalls:sys_enter_read", "syscalls:sys_enter_write", "cpu-migrations",
	}
}

// countCalls puts every load on every server once more, with perf counting.
func (m *measurement) countCalls(ctx context.Context) error {
	for _, c := range m.cases {
		m.calls[c.name] = make(map[string]calls)
		for _, v := range m.variants {
			command.Progress("counting, %s, %s", c.name, v.name)
			counted, err := m.count(ctx, c.load, m.servers[v.name])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", v.name, c.name, err)
			}
			m.calls[c.name][v.name] = counted
		}
	}
	return nil
}

func (m *measurement) count(ctx context.Context, l load.Load, s *Server) (calls, error) {
	const early = 500 * time.Millisecond // perf takes a while to attach
	var pids []string
	for _, pid := range s.PIDs {
		pids = append(pids, strconv.Itoa(pid))
	}
	// The servers do nothing before and after the load, so that it does no harm
	// to count for longer.
	seconds := (m.duration + 2*early).Seconds()
	perf := exec.CommandContext(ctx, "perf", "stat", "-x", ";", "-e", strings.Join(events(), ","), "-p", strings.Join(pids, ","),
		"--", "sleep", strconv.FormatFloat(seconds, 'f', 1, 64))
	var out strings.Builder
	perf.Stderr = &out
	if err := perf.Start(); err != nil {
		return nil, err
	}
	time.Sleep(early)
	taken, err := m.turn(l, s)
	if err := errors.Join(err, perf.Wait()); err != nil {
		return nil, fmt.Errorf("perf: %w\n%s", err, &out)
	}
	return parseCalls(out.String(), taken.Requests)
}

// parseCalls reads what perf printed: lines such as "12;;event;…".
func parseCalls(text string, requests int) (calls, error) {
	counted := make(calls)
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ";")
		if len(fields) < 3 {
			continue
		}
		n, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("perf: %q: %w", line, err)
		}
		counted[fields[2]] = n / float64(requests)
	}
	if len(counted) != len(events()) {
		return nil, fmt.Errorf("perf counted %d events, want %d:\n%s", len(counted), len(events()), text)
	}
	return counted, nil
}
