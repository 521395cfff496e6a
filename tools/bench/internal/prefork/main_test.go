package prefork

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(Roles())
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--duration", "200ms", "--case", "^512", "--servers", "^epoll prefork$")
	if err != nil || o.rounds != 2 || o.duration != 200*time.Millisecond || len(o.cases) != 1 || o.cases[0].load.Conns != 512 {
		t.Errorf("options %+v, %v", o, err)
	}
	if len(o.variants) != 2 || o.variants[0].name != "epoll" || o.variants[1].name != "epoll prefork" {
		t.Errorf("servers %+v, want epoll prefork and what it is compared with", o.variants)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--duration", "1ms"}, {"--workers", "0"}, {"--case", "("}, {"--case", "none"}, {"--servers", "("}, {"--servers", "gopher"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// What is compared with something is compared with a server that is there, and
// optional servers run if they are named.
func TestVariants(t *testing.T) {
	all := names(allVariants(), variant.named)
	for _, v := range allVariants() {
		if v.base != "" && !slices.Contains(all, v.base) || v.base == "" && (v.Prefork || v.oneP) {
			t.Errorf("%s is compared with %q", v.name, v.base)
		}
	}
	for pattern, want := range map[string]bool{".": false, "one socket": true} {
		chosen, err := selectVariants(pattern)
		if got := slices.ContainsFunc(chosen, func(v variant) bool { return v.Shared }); err != nil || got != want {
			t.Errorf("%q chooses the optional server: %v, %v", pattern, got, err)
		}
	}
}

func TestParseUsage(t *testing.T) {
	const status = "Name:\ta\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
	u, err := parseUsage("5000 600 12\n", status)
	want := usage{cpu: 5 * time.Microsecond, waited: 600, slept: 7, ousted: 3}
	if err != nil || u != want {
		t.Errorf("usage %+v, %v, want %+v", u, err, want)
	}
	if got := u.plus(u).minus(u); got != u {
		t.Errorf("%+v, want %+v", got, u)
	}
	for _, bad := range [][2]string{{"", status}, {"x 1 2", status}, {"1 2 3", ""}, {"1 2 3", "\nvoluntary_ctxt_switches:\t7\n"}} {
		if u, err := parseUsage(bad[0], bad[1]); err == nil {
			t.Errorf("parseUsage(%q) = %+v without an error", bad, u)
		}
	}
}

func TestThreadsInTheirOrder(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"1005", "998", "1000", "12", "9", "1001"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, err := threadsOf(998, folder)
	if want := []int{998, 1000, 1001, 1005, 9, 12}; err != nil || !slices.Equal(got, want) {
		t.Errorf("threads %v, %v, want %v", got, err, want)
	}
}

func TestParseCalls(t *testing.T) {
	var text strings.Builder
	for _, event := range events() {
		text.WriteString("500;;" + event + ";1000;100.00;;\n")
	}
	counted, err := parseCalls("\n"+text.String(), 1000)
	if err != nil || counted[events()[0]] != 0.5 {
		t.Errorf("calls %v, %v", counted, err)
	}
	for _, bad := range []string{"", "<not supported>;;cpu-migrations;0;100.00;;\n"} {
		if counted, err := parseCalls(bad, 1); err == nil {
			t.Errorf("parseCalls(%q) = %v without an error", bad, counted)
		}
	}
}

func TestNewSample(t *testing.T) {
	before := []usage{{cpu: 10}, {cpu: 20, slept: 1}, {cpu: 30}}
	after := []usage{{cpu: 10}, {cpu: 50, slept: 4}, {cpu: 40, ousted: 2}}
	s := newSample(load.Result{Requests: 2}, before, after)
	if s.cpu != 40 || s.slept != 3 || s.ousted != 2 || s.busiest != 0.75 || s.Requests != 2 {
		t.Errorf("sample %+v", s)
	}
}

// used returns a sample of a server that used so much CPU time per request.
func used(perRequest time.Duration) sample {
	return sample{Result: load.Result{Requests: 1000, Elapsed: time.Second, Latency: new(latency.Histogram)}, usage: usage{cpu: 1000 * perRequest, slept: 500}, busiest: 0.5}
}

func TestDocument(t *testing.T) {
	o, err := command.Parse(flags, "--case", "^512", "--servers", "^(epoll|fasthttp) prefork$")
	if err != nil {
		t.Fatal(err)
	}
	name := o.cases[0].name
	// The second round ran on a machine of half the speed.
	m := &measurement{options: o, calls: map[string]map[string]calls{name: {"epoll": {events()[0]: 2.5}}}}
	m.samples = map[string]map[string][]sample{name: {
		"epoll":            {used(10 * time.Microsecond), used(20 * time.Microsecond)},
		"epoll prefork":    {used(11 * time.Microsecond), used(22 * time.Microsecond)},
		"fasthttp":         {used(10 * time.Microsecond), used(20 * time.Microsecond)},
		"fasthttp prefork": {used(15 * time.Microsecond), used(30 * time.Microsecond)},
	}}
	d := m.document()
	var got []string
	for _, section := range d.Sections {
		for _, row := range section.Rows {
			if len(row) != len(section.Head) {
				t.Errorf("%d columns in %q, want %d", len(row), row, len(section.Head))
			}
		}
		got = append(got, strings.Join(section.Rows[0][1:4], "; "))
	}
	want := []string{"epoll prefork; 1.10 (1.10–1.10); ≤ 1.10 met", "epoll; 15.00; 0.00", "epoll; 2.500; 0.000"}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if last := d.Sections[0].Rows[1]; last[2] != "1.50 (1.50–1.50)" || last[3] != "-" {
		t.Errorf("fasthttp's row %q", last)
	}
}

// A server that answers wrongly makes the measurement fail.
func TestPrepareChecksAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		good   bool
	}{{http.StatusOK, peers.Body, true}, {http.StatusOK, "another", false}, {http.StatusNotFound, peers.Body, false}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		defer server.Close()
		l := load.Load{Addr: server.Listener.Addr().String()}
		if err := prepare(&l); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Every variant serves with as many processes as it says, and they are gone
// when it has been stopped.
func TestMeasure(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	m := &measurement{options: options{workers: 2, variants: allVariants()}}
	defer func() {
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		awaitEnd(t, m.servers)
	}()
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, v := range m.variants {
		s, err := m.turn(load.Load{Conns: 8, Requests: 160}, m.servers[v.name])
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		if s.Requests == 0 || s.cpu == 0 || s.sysmon > s.cpu || s.busiest <= 0 || s.busiest > 1 || !v.Prefork && s.busiest != 1 {
			t.Errorf("%s: %+v", v.name, s)
		}
	}
}

// awaitEnd waits until no process of the servers is left.
func awaitEnd(t *testing.T, servers map[string]*Server) {
	const patience = time.Minute
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, s := range servers {
			for _, pid := range s.PIDs {
				if u, err := usageOf(pid); err == nil && u.cpu > 0 {
					left++
				}
			}
		}
		if left == 0 {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("%d processes are left", left)
		}
	}
}
