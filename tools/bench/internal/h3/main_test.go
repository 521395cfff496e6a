package h3

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(Roles())
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--requests", "1000", "--case", "^64 × 1$", "--servers", "sluice", "--caddy", "/caddy")
	if err != nil || o.rounds != 2 || o.requests != 1000 || len(o.cases) != 1 || o.cases[0].conns != 64 || o.programs[caddyKind] != "/caddy" {
		t.Errorf("options %+v, %v", o, err)
	}
	if want := []string{baseline, ownKind}; !slices.Equal(o.kinds, want) {
		t.Errorf("servers %q, want %q", o.kinds, want)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--requests", "10"}, {"--case", "("}, {"--case", "none"}, {"--servers", "gopher"}, {"--conns", "-1"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestRequests: a load is of whole bursts.
func TestRequests(t *testing.T) {
	for _, c := range allCases {
		for _, wanted := range []int{1, 1000, 20_001} {
			if n, burst := c.requests(wanted), c.conns*c.streams; n%burst != 0 || n < 2*burst {
				t.Errorf("%s: %d requests", c.name, n)
			}
		}
	}
}

// TestMeasure has every server that is installed answer each kind of request.
func TestMeasure(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	o := options{rounds: 1, requests: 100, handshakes: 20, kinds: allKinds, programs: map[string]string{nginxKind: "nginx", caddyKind: "caddy"}}
	check := func(name string, all map[string][]sample, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for kind, got := range all {
			if len(got) != 1 || got[0].failures != 0 {
				t.Errorf("%s, %s: %+v", name, kind, got)
			}
		}
		for _, kind := range []string{ownKind, quicGo} {
			if all[kind] == nil {
				t.Errorf("%s: no %s", name, kind)
			}
		}
	}
	for _, c := range allCases[1:] {
		c.conns = min(c.conns, 4)
		all, err := measure(t.Context(), o, c)
		check(c.name, all, err)
		if c.peer.Answer == peers.AnswerHello && all[quicGo] != nil && all[quicGo][0].packets == 0 {
			t.Errorf("%s: no packets", c.name)
		}
	}
	all, err := measureHandshakes(t.Context(), o)
	check("handshakes", all, err)
	all, err = measureBeside(t.Context(), o, 10, 50*time.Millisecond)
	check("beside", all, err)
	for kind, got := range all {
		if w := got[0].waits; w[0] <= 0 || w[1] < w[0] || w[2] < w[1] {
			t.Errorf("%s: the others waited %v ms", kind, w)
		}
	}
	for _, kind := range []string{ownKind, quicGo} {
		bytes, goroutines, err := measureIdle(t.Context(), kind, 20, time.Millisecond)
		if err != nil || bytes < 1000 || goroutines < 1 {
			t.Errorf("%s: %v bytes, %v goroutines, %v", kind, bytes, goroutines, err)
		}
	}
}
