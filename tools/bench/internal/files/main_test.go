package files

import (
	"net/http"
	"os"
	"path/filepath"
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

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--seconds", "3", "--servers", "epoll", "--sizes", "512B,1MiB,1MiB")
	if err != nil || o.rounds != 2 || o.duration != 3*time.Second || !slices.Equal(o.kinds, []string{nginx, peers.Epoll}) {
		t.Errorf("options %+v, %v", o, err)
	}
	if !slices.Equal(o.sizes, []command.Size{512, command.MiB}) {
		t.Errorf("sizes %v", o.sizes)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--seconds", "0"}, {"--conns", "0"}, {"--sizes", "1KiB,many"}, {"--servers", "gopher"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", strings.Join(bad, " "))
		}
	}
}

// Every kind of server that is installed serves the files, as they have to be
// answered, and says what CPU time it used.
func TestContenders(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	sizes := []command.Size{command.KiB, 100 * command.KiB}
	files, err := writeFiles(filepath.Join(folder, "root"), sizes)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			if _, err := findNginx(); err != nil && strings.HasPrefix(kind, nginx) {
				t.Skip(err)
			}
			c, err := start(t.Context(), kind, folder)
			if err != nil {
				t.Fatal(err)
			}
			m := newMeasurement(options{sizes: sizes}, []*contender{c}, files)
			before, err := c.cpu()
			if err != nil {
				t.Error(err)
			}
			for range 10 {
				if err := m.check(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if after, err := c.cpu(); err != nil || after <= before {
				t.Errorf("CPU time went from %v to %v, %v", before, after, err)
			}
			if !strings.Contains(m.fields[kind], "Last-Modified") {
				t.Errorf("fields %q", m.fields[kind])
			}
			if err := c.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckAnswer(t *testing.T) {
	f := file{content: []byte("body")}
	good := http.Header{
		"Content-Length": {"4"}, "Content-Type": {"text/html; charset=utf-8"}, "Last-Modified": {"x"}, "Accept-Ranges": {"bytes"},
	}
	if err := checkAnswer(&http.Response{StatusCode: 200, Header: good}, f.content, f); err != nil {
		t.Error(err)
	}
	with := func(name, value string) http.Header {
		header := good.Clone()
		header.Set(name, value)
		return header
	}
	for name, bad := range map[string]*http.Response{
		"status": {StatusCode: 206, Header: good}, "length": {StatusCode: 200, Header: with("Content-Length", "5")},
		"encoding": {StatusCode: 200, Header: with("Content-Encoding", "gzip")}, "close": {StatusCode: 200, Header: good, Close: true},
		"type": {StatusCode: 200, Header: with("Content-Type", "text/plain")}, "date": {StatusCode: 200, Header: with("Last-Modified", "")},
		"ranges": {StatusCode: 200, Header: with("Accept-Ranges", "none")},
	} {
		if err := checkAnswer(bad, f.content, f); err == nil {
			t.Errorf("another %s: no error", name)
		}
	}
	if err := checkAnswer(&http.Response{StatusCode: 200, Header: good}, []byte("Body"), f); err == nil {
		t.Error("another body: no error")
	}
}

// used returns a sample of a server that used so much CPU time per request.
func used(perRequest time.Duration) sample {
	return sample{Result: load.Result{Requests: 1000, Elapsed: time.Second, Latency: took(time.Millisecond)}, cpu: 1000 * perRequest}
}

func TestTables(t *testing.T) {
	o := options{kinds: []string{nginx, nginxCache, peers.Epoll}, conns: 64}
	m := newMeasurement(o, nil, []file{{size: command.KiB}, {size: command.MiB}})
	// The second round ran on a machine of half the speed.
	for i, slow := range []time.Duration{1, 2} {
		for size, epoll := range map[command.Size]time.Duration{command.KiB: 9, command.MiB: 14} {
			for kind, cpu := range map[string]time.Duration{nginx: 10, nginxCache: 8, peers.Epoll: epoll} {
				p := pair{size, kind}
				m.samples[p] = append(m.samples[p], used(cpu*slow*time.Microsecond))
				if len(m.samples[p]) != i+1 {
					t.Fatal("a sample is missing")
				}
			}
		}
	}
	var got []string
	for _, row := range m.compared().Rows {
		got = append(got, strings.Join(row, "; "))
	}
	want := []string{
		"1KiB; nginx-cache; 0.80 (0.80–0.80); -; 1.00 (1.00–1.00)",
		"1KiB; epoll; 0.90 (0.90–0.90); ≤ 1.00 met; 1.12 (1.12–1.12)",
		"1MiB; nginx-cache; 0.80 (0.80–0.80); -; 1.00 (1.00–1.00)",
		"1MiB; epoll; 1.40 (1.40–1.40); ≤ 1.20 missed; 1.75 (1.75–1.75)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if rows := m.measured().Rows; len(rows) != 6 || rows[0][2] != "15.00" || rows[3][5] != "1000" {
		t.Errorf("rows %q", rows)
	}
	if err := m.failure(); err == nil || err.Error() != "epoll, 1MiB: 1.40 × nginx's CPU time per request, want at most 1.20" {
		t.Errorf("failure %v", err)
	}
	p := pair{command.KiB, nginx}
	m.samples[p][0].Failures, m.samples[p][0].FirstFailure = 2, "read"
	if err := m.failure(); err == nil || !strings.Contains(err.Error(), "nginx, 1KiB: errors: 2: read") {
		t.Errorf("failure %v", err)
	}
}

func took(d time.Duration) *latency.Histogram {
	h := new(latency.Histogram)
	h.Record(d)
	return h
}
