package hold

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(servers.Roles())
	os.Exit(m.Run())
}

func TestHold(t *testing.T) {
	t.Parallel()
	o := options{conns: 50, period: 50 * time.Millisecond, duration: 100 * time.Millisecond, kinds: []string{peers.NetHTTP}}
	section, err := holdAll(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	row := section.Rows[0]
	if !slices.Equal(row[:3], []string{peers.NetHTTP, "100", "0"}) || len(row) != len(section.Head) {
		t.Errorf("row %q under %q", row, section.Head)
	}
}

func TestChurn(t *testing.T) {
	t.Parallel()
	o := options{churn: 300, width: 8, patience: 10 * time.Second, kinds: []string{peers.NetHTTP}}
	c, err := churn(t.Context(), o, peers.NetHTTP)
	if err != nil {
		t.Fatal(err)
	}
	if c.result.Requests < 300 || c.result.Failures != 0 {
		t.Errorf("result %+v", c.result)
	}
	c.after.memory = c.before.memory // the race detector's grows with everything
	if leaks := c.leaks(); leaks != noLeak || c.after.descriptors == 0 || c.after.goroutines == 0 {
		t.Errorf("leaks: %s (%+v)", leaks, c)
	}
	if row := c.row(peers.NetHTTP); len(row) != 7 || row[1] != "0" {
		t.Errorf("row %q", row)
	}
}

func TestErrorsAreShown(t *testing.T) {
	failed := load.Result{Requests: 7, Failures: 3, FirstFailure: "connection reset", Latency: new(latency.Histogram)}
	if row := (steady{conns: 10, result: failed}).row("x"); row[1] != "7" || row[2] != "3: connection reset" {
		t.Errorf("row %q", row)
	}
	if row := (churned{result: failed}).row("x"); row[1] != "3: connection reset" {
		t.Errorf("row %q", row)
	}
}

func TestLeaks(t *testing.T) {
	before := holdings{descriptors: 10, goroutines: 5, memory: 10 << 20}
	for _, c := range []struct {
		after holdings
		want  string
	}{
		{before, noLeak},
		{holdings{descriptors: 12, goroutines: 9, memory: 11 << 20}, noLeak},
		{holdings{}, noLeak},
		{holdings{descriptors: 100, goroutines: 5}, "descriptors"},
		{holdings{descriptors: 10, goroutines: 500, memory: 10<<20 + 200_000*100}, "goroutines, memory"},
	} {
		if got := before.leaksOf(c.after); got != c.want {
			t.Errorf("%+v: %q, want %q", c.after, got, c.want)
		}
	}
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--conns", "10", "--duration", "2s", "--servers", "epoll")
	if err != nil || o.conns != 10 || o.duration != 2*time.Second || o.churn != 0 || !slices.Equal(o.kinds, []string{peers.Epoll}) {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{
		{"--conns", "0"}, {"--conns", "1000000000"}, {"--period", "0"}, {"--duration", "100ms"}, {"--churn", "-1"}, {"--width", "0"}, {"--servers", "x"},
	} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", strings.Join(bad, " "))
		}
	}
}
