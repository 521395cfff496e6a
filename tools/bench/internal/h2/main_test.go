package h2

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	all := servers.Roles()
	maps.Copy(all, Roles())
	process.Main(all)
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--requests", "1000", "--case", "^64 × 1$", "--servers", "net/http,h2o", "--tls", "--before", "old")
	if err != nil || o.rounds != 2 || o.requests != 1000 || len(o.cases) != 1 || o.cases[0].conns != 64 || !o.cases[0].peer.TLS || !o.cases[0].peer.HTTP2 {
		t.Errorf("options %+v, %v", o, err)
	}
	if want := []string{baseline, peers.NetHTTP, h2o, before}; o.before != "old" || !slices.Equal(o.kinds, want) {
		t.Errorf("servers %q, want %q", o.kinds, want)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--requests", "10"}, {"--case", "("}, {"--case", "none"}, {"--servers", "gopher"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestRequests: the beginning of a connection is measured only where the load says so.
func TestRequests(t *testing.T) {
	large := peers.Options{Answer: peers.AnswerLarge}
	for _, c := range []struct{ given, conns, each, want int }{{10_000, 1, 0, 10_000}, {10_000, 512, 0, 102_400}, {10_000, 512, 20, 10_240}} {
		if got := (&loadCase{conns: c.conns, each: c.each}).requests(c.given); got != c.want {
			t.Errorf("%+v: %d requests", c, got)
		}
	}
	if got := (&loadCase{conns: 1, peer: large}).requests(10_000); got != 1000 {
		t.Errorf("large answers: %d requests", got)
	}
}

func TestParseOutput(t *testing.T) {
	const good = "requests: 100 total, 100 started, 100 done, 97 succeeded, 3 failed, 2 errored, 1 timeout\nstatus codes: 97 2xx, 0 3xx, 4 4xx, 5 5xx\n"
	if n, failures, err := parseOutput(good); n != 97 || failures != 3+2+1+4+5 || err != nil {
		t.Errorf("%d good, %d failures, %v", n, failures, err)
	}
	for _, bad := range []string{"", "requests: nothing\n", "status codes: 1 2xx, 0 3xx, 0 4xx, 0 5xx\n"} {
		if _, _, err := parseOutput(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestMeasure has every server that is installed answer each kind of request.
func TestMeasure(t *testing.T) {
	if err := command.Require("taskset", "h2load"); err != nil {
		t.Skip(err)
	}
	for _, overTLS := range []bool{false, true} {
		for _, c := range allCases[3:] {
			c.conns, c.each, c.peer.HTTP2, c.peer.TLS = 8, 25, true, overTLS
			all, err := measure(t.Context(), options{rounds: 1, requests: 1000, kinds: append(slices.Clone(allKinds), before), before: os.Args[0]}, c)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for kind, got := range all {
				if len(got) != 1 || got[0].failures != 0 {
					t.Errorf("%s, TLS %v, %s: %+v", c.name, overTLS, kind, got)
				}
			}
			for _, kind := range []string{peers.Epoll, peers.PerConn, ownHTTP, peers.NetHTTP, before} {
				if all[kind] == nil {
					t.Errorf("%s: no %s", c.name, kind)
				}
			}
			if _, err := exec.LookPath(nghttpd); err == nil && all[nghttpd] == nil {
				t.Errorf("%s: no nghttpd", c.name)
			}
		}
	}
}
