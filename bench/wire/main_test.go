package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/wrk"
)

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-rounds", "2", "-duration", "1s", "-case", "pipeline", "-servers", "epoll"})
	if err != nil || o.rounds != 2 || o.duration != time.Second || len(o.cases) != 1 || o.cases[0].load.Depth != 16 {
		t.Errorf("options %+v, %v", o, err)
	}
	if !slices.Equal(o.kinds, []string{peers.Epoll, baseline}) {
		t.Errorf("servers %q", o.kinds)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-duration", "1500ms"}, {"-case", "("}, {"-case", "none"}, {"-servers", "gopher"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if _, err := parseFlags([]string{"-list"}); !errors.Is(err, command.ErrDone) {
		t.Errorf("-list: %v", err)
	}
}

func TestColumns(t *testing.T) {
	c := columnsOf([]sample{{
		Result: wrk.Result{Requests: 1000, Errors: wrk.Errors{Read: 1}, Duration: 2 * time.Second, P99: 3 * time.Millisecond},
		cpu:    7 * time.Millisecond,
	}})
	if c.cpu[0] != 7 || c.rate[0] != 500 || c.p99[0] != 3000 || c.errors.Sum() != 1 {
		t.Errorf("columns %+v", c)
	}
}

// used returns a sample of a server that used so much CPU time per request.
func used(perRequest time.Duration) sample {
	return sample{Result: wrk.Result{Requests: 1000, Duration: time.Second, P50: time.Millisecond, P99: time.Millisecond}, cpu: 1000 * perRequest}
}

func TestCompared(t *testing.T) {
	cases, err := selectCases("^sleeps 1 ms, 512")
	if err != nil {
		t.Fatal(err)
	}
	c := cases[0]
	// The second round ran on a machine of half the speed.
	c.samples[peers.FastHTTP] = []sample{used(10 * time.Microsecond), used(20 * time.Microsecond)}
	c.samples[peers.PerConn] = []sample{used(9 * time.Microsecond), used(18 * time.Microsecond)}
	c.samples[peers.Epoll] = []sample{used(8 * time.Microsecond), used(16 * time.Microsecond)}
	o := options{cases: cases, kinds: []string{peers.PerConn, peers.Epoll, peers.FastHTTP}}
	var got []string
	for _, row := range compared(o).Rows {
		got = append(got, strings.Join(row[1:], "; "))
	}
	want := []string{
		"perconn; 0.90 (0.90–0.90); -",
		"epoll; 0.80 (0.80–0.80); ≤ 0.80 met",
		"epoll ÷ perconn; 0.89 (0.89–0.89); ≤ 1.10 met",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if rows := measured(o).Rows; len(rows) != 3 || rows[2][2] != "15.00" || rows[0][len(rows[0])-1] != "0" {
		t.Errorf("rows %q", rows)
	}
}
