package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/load"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/seeds"
)

func TestMain(m *testing.M) {
	process.Main(roles())
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-rounds", "2", "-duration", "1s", "-case", "^pipeline of 16$", "-servers", "epoll"})
	if err != nil || o.rounds != 2 || o.duration != time.Second || len(o.cases) != 1 || o.cases[0].load.Depth != 16 {
		t.Errorf("options %+v, %v", o, err)
	}
	if want := []string{peers.Epoll, baseline}; !slices.Equal(o.kinds, want) || !slices.Equal(o.seeds.Kinds, want) {
		t.Errorf("servers %q and %q, want %q", o.kinds, o.seeds.Kinds, want)
	}
	o, err = parseFlags([]string{"-case", "^in memory", "-rounds", "2", "-duration", "1100ms"})
	if err != nil || o.cases != nil || len(o.seeds.Cases) != 16 || o.seeds.Rounds != 2 || o.seeds.Count != 2 || o.seeds.Duration != 2*time.Second {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "-1"}, {"-duration", "1ms"}, {"-case", "("}, {"-case", "none"}, {"-servers", "gopher"}, {"-quick", "-full"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if _, err := parseFlags([]string{"-list"}); !errors.Is(err, command.ErrDone) {
		t.Errorf("-list: %v", err)
	}
}

func TestQuickAndFull(t *testing.T) {
	quick, err := parseFlags([]string{"--quick"})
	if err != nil {
		t.Fatal(err)
	}
	full, err := parseFlags([]string{"--full"})
	if err != nil {
		t.Fatal(err)
	}
	if quick.rounds != quickRounds || full.rounds != fullRounds || quick.duration != quickDuration || full.duration != fullDuration {
		t.Errorf("quick %d of %v, full %d of %v", quick.rounds, quick.duration, full.rounds, full.duration)
	}
	shared := func(c *wireCase) bool { return c.shared }
	if slices.ContainsFunc(quick.cases, shared) || !slices.ContainsFunc(full.cases, shared) || len(full.cases) <= len(quick.cases) {
		t.Errorf("%d quick cases, %d of all", len(quick.cases), len(full.cases))
	}
	if got := len(full.seeds.Cases); got != len(seeds.Cases()) || len(quick.seeds.Cases) == 0 || len(quick.seeds.Cases) >= got || quick.seeds.Rounds >= full.seeds.Rounds {
		t.Errorf("of seeds: %d quick cases, %d of all", len(quick.seeds.Cases), got)
	}
}

func TestColumns(t *testing.T) {
	c := columnsOf([]sample{{
		Result: load.Result{Requests: 1000, Failures: 1, Elapsed: 2 * time.Second, P99: 3 * time.Millisecond},
		cpu:    7 * time.Millisecond, resident: 8,
	}})
	if c.cpu[0] != 7 || c.rate[0] != 500 || c.p99[0] != 3000 || c.failures != 1 || c.resident[0] != 8 {
		t.Errorf("columns %+v", c)
	}
}

// used returns a sample of a server that used so much CPU time per request.
func used(perRequest time.Duration) sample {
	return sample{
		Result: load.Result{Requests: 1000, Elapsed: time.Second, P50: time.Millisecond, P99: time.Millisecond},
		cpu:    1000 * perRequest,
	}
}

func TestTables(t *testing.T) {
	var o options
	if err := o.choose("^64 connections$", true); err != nil || len(o.seeds.Cases) > 0 {
		t.Fatalf("%d cases of seeds, %v", len(o.seeds.Cases), err)
	}
	c := o.cases[0]
	// The second round ran on a machine of half the speed.
	c.samples[peers.FastHTTP] = []sample{used(10 * time.Microsecond), used(20 * time.Microsecond)}
	c.samples[peers.Epoll] = []sample{used(9 * time.Microsecond), used(18 * time.Microsecond)}
	c.samples[floorKind] = []sample{used(5 * time.Microsecond), used(10 * time.Microsecond)}
	c.absent[nginx] = "it is not there"
	o.kinds = []string{peers.Epoll, peers.FastHTTP, nginx, floorKind}
	m := &measurement{options: o}
	var got []string
	for _, row := range compared(m).Rows {
		got = append(got, strings.Join(row[1:], "; "))
	}
	if want := []string{"epoll; 0.90 (0.90–0.90); ≤ 0.78 missed; 1.80 (1.80–1.80)"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	s := measured(m)
	if len(s.Rows) != 4 || s.Rows[1][2] != "15.00" || s.Rows[2][2] != "-" || len(s.Rows[2]) != len(s.Head) {
		t.Errorf("rows %q", s.Rows)
	}
	if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "nginx is left out: it is not there") {
		t.Errorf("notes %q", notes)
	}
	for _, plot := range s.Plots {
		if len(plot.Panels) != 1 || len(plot.Panels[0].Bars) != 3 {
			t.Errorf("%s: %+v", plot.File, plot.Panels)
		}
	}
}

// A short measurement with real servers: every kind of load, and every answer.
func TestSmoke(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	o, err := parseFlags([]string{
		"-rounds", "1", "-duration", "100ms", "-out", folder, "-servers", "epoll,nginx,floor", // and the baseline
		"-case", "^(pipeline of 16|connection per request|TLS|in memory, client: DoFastServer)$",
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := publish(&text, m); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.cases {
		for _, kind := range []string{peers.Epoll, peers.FastHTTP} {
			samples := c.samples[kind]
			if len(samples) != 1 || samples[0].Requests == 0 || samples[0].Failures != 0 || samples[0].cpu <= 0 || samples[0].P99 <= 0 || samples[0].resident == 0 {
				t.Errorf("%s, %s: %+v", c.name, kind, samples)
			}
		}
	}
	if !strings.Contains(text.String(), "In memory: clients\n") {
		t.Errorf("no clients in %s", &text)
	}
	for _, name := range []string{"wire.md", "wire-cpu.svg", "seeds-client.svg"} {
		if content, err := os.ReadFile(filepath.Join(folder, name)); err != nil || len(content) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
	if _, err := os.Stat(m.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary files were left behind: %v", err)
	}
}
