package fairness

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
	process.Main(Roles())
	os.Exit(m.Run())
}

// waited returns a sample in which every round trip and timer took so long.
func waited(kind string, d time.Duration) sample {
	rest := new(servers.ProbeResult)
	rest.RoundTrip.Record(d)
	rest.TimerLate.Record(d)
	return sample{kind: kind, rest: rest, load: load.Result{Requests: 1000, Elapsed: time.Second, Latency: new(latency.Histogram)}}
}

func TestDocument(t *testing.T) {
	o := options{conns: 256, kinds: []string{peers.PerConn, peers.Epoll, peers.FastHTTP}}
	samples := []sample{
		// The second round ran on a machine of half the speed.
		waited(peers.Epoll, 8*time.Millisecond), waited(peers.PerConn, 10*time.Millisecond), waited(peers.FastHTTP, 12*time.Millisecond),
		waited(peers.FastHTTP, 24*time.Millisecond), waited(peers.Epoll, 16*time.Millisecond), waited(peers.PerConn, 20*time.Millisecond),
	}
	d := document(o, samples, waited("", 50*time.Microsecond).rest)
	var got []string
	for _, section := range d.Sections {
		for _, row := range section.Rows {
			if len(row) != len(section.Head) {
				t.Errorf("%d cells under %d heads: %q", len(row), len(section.Head), row)
			}
			got = append(got, strings.Join(row, "; "))
		}
	}
	want := []string{
		"no load; 0.050; 0.050; 0.050; -; 0.050; 0.050; 0.050; -; -",
		"perconn; 10.0; 20.0; 20.0; -; 10.0; 20.0; 20.0; 1000; 0",
		"epoll; 8.0; 16.0; 16.0; ≤ 15 missed; 8.0; 16.0; 16.0; 1000; 0",
		"fasthttp; 12.0; 24.0; 24.0; -; 12.0; 24.0; 24.0; 1000; 0",
		"epoll; 0.80 (0.80–0.80); ≤ 1 met; 0.80 (0.80–0.80)",
		"fasthttp; 1.20 (1.20–1.20); -; 1.20 (1.20–1.20)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The whole path but the load: a server in a process of its own probes an echo in
// another one.
func TestServersProbe(t *testing.T) {
	echo, err := process.Start(t.Context(), process.Options{CPU: process.AnyCPU, Urgent: true}, echoRole, nil)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := echo.Line()
	if err != nil {
		t.Fatal(err)
	}
	server, err := servers.Start(t.Context(), servers.Options{Kind: peers.NetHTTP, Options: process.Options{CPU: process.AnyCPU, Procs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := server.Probe(servers.Probe{Echo: addr, Duration: 20 * time.Millisecond})
	if err != nil || r.RoundTrip.Count() == 0 || r.TimerLate.Count() == 0 {
		t.Errorf("result %+v, %v", r, err)
	}
	for _, child := range []*process.Child{server.Child, echo} {
		if err := child.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--conns", "10", "--rounds", "1", "--duration", "2s", "--servers", "epoll")
	if err != nil || o.conns != 10 || o.rounds != 1 || o.duration != 2*time.Second || !slices.Equal(o.kinds, []string{peers.Epoll}) {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--conns", "0"}, {"--rounds", "0"}, {"--duration", "1s"}, {"--servers", "x"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
