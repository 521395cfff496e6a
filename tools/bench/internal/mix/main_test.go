package mix

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

// answered returns a sample in which every request took so long.
func answered(d time.Duration) sample {
	var s sample
	for range (options{}).streams() {
		r := load.Result{Requests: 1, Latency: new(latency.Histogram)}
		r.Latency.Record(d)
		s = append(s, r)
	}
	return s
}

func TestSection(t *testing.T) {
	m := &measurement{
		options: options{kinds: []string{peers.PerConn, peers.Epoll}}, procs: 1, spins: 7,
		samples: map[string][]sample{
			// The second round ran on a machine of half the speed.
			peers.PerConn: {answered(10 * time.Millisecond), answered(20 * time.Millisecond)},
			peers.Epoll:   {answered(5 * time.Millisecond), answered(10 * time.Millisecond)},
		},
	}
	m.samples[peers.Epoll][0][0].Failures = 2
	m.samples[peers.Epoll][0][0].FirstFailure = "gone"
	section := m.section()
	if len(section.Rows) != 6 {
		t.Fatalf("%d rows: %q", len(section.Rows), section.Rows)
	}
	for i, want := range []string{
		"/instant; perconn; 10.0; 20.0; 20.0; -; -; -; 2; 0",
		"/instant; epoll; 5.0; 10.0; 10.0; 0.50 (0.50–0.50); 0.50 (0.50–0.50); ≤ 1 met; 2; 2: gone",
	} {
		if got := strings.Join(section.Rows[i], "; "); got != want {
			t.Errorf("row %d: %q, want %q", i, got, want)
		}
		if len(section.Rows[i]) != len(section.Head) {
			t.Errorf("%d cells under %d heads", len(section.Rows[i]), len(section.Head))
		}
	}
}

// A whole round, for one server.
func TestRound(t *testing.T) {
	m := &measurement{
		options: options{kinds: []string{peers.NetHTTP}, duration: 200 * time.Millisecond, rounds: 1, compute: computeTime, sleep: sleepTime},
		procs:   2, spins: 1, samples: make(map[string][]sample),
	}
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.round(1); err != nil {
		t.Fatal(err)
	}
	for i, stream := range m.streams() {
		r := m.samples[peers.NetHTTP][0][i]
		if want := stream.conns * int(m.duration/stream.period); r.Requests != want || r.Failures != 0 {
			t.Errorf("%s: %+v, want %d answers", stream.path, r, want)
		}
	}
	if slept := m.samples[peers.NetHTTP][0][2].Latency.Percentile(0); slept < sleepTime*99/100 {
		t.Errorf("a sleeping request took %v", slept)
	}
	if err := m.stop(); err != nil {
		t.Error(err)
	}
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "1", "--duration", "1s", "--procs", "2", "--servers", "epoll")
	if err != nil || o.rounds != 1 || o.duration != time.Second || !slices.Equal(o.procs, []int{2}) || !slices.Equal(o.kinds, []string{peers.PerConn, peers.Epoll}) {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--duration", "1ms"}, {"--procs", "0"}, {"--procs", ""}, {"--servers", "x"}, {"--compute", "1us"}, {"--sleep", "0"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
