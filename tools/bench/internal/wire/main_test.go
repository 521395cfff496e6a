package wire

import (
	"bytes"
	"errors"
	"io"
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
	"github.com/sluicehttp/sluice/tools/bench/internal/prefork"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const otherRole = "serve-other"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == otherRole {
		panic(http.ListenAndServe(os.Args[2], http.HandlerFunc(answerOther)))
	}
	process.Main(prefork.Roles())
	process.Main(servers.Roles())
	os.Exit(m.Run())
}

// answerOther is the handler of a program of --program: it answers with the file that is its
// second argument, and without one with a text of its own, and GET only.
func answerOther(w http.ResponseWriter, r *http.Request) {
	switch {
	case len(os.Args) > 3:
		http.ServeFile(w, r, os.Args[3])
	case r.Method == http.MethodGet:
		io.WriteString(w, "another text")
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--duration", "1s", "--case", "^pipeline of 16$", "--servers", "epoll")
	if err != nil || o.rounds != 2 || o.duration != time.Second || len(o.cases) != 1 || o.cases[0].load.Depth != 16 {
		t.Errorf("options %+v, %v", o, err)
	}
	if want := []string{peers.Epoll, baseline}; !slices.Equal(o.kinds, want) {
		t.Errorf("servers %q, want %q", o.kinds, want)
	}
	for _, bad := range [][]string{{"--rounds", "-1"}, {"--duration", "1ms"}, {"--case", "("}, {"--case", "none"}, {"--servers", "gopher"}, {"--quick", "--full"}, {"--head", "three"},
		{"--program", "x"}, {"--program", "x= "}, {"--program", "=x"}, {"--program", "nginx=x"}, {"--program", "x=y", "--program", "x=z"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestQuickAndFull(t *testing.T) {
	quick, err := command.Parse(flags, "--quick")
	if err != nil {
		t.Fatal(err)
	}
	full, err := command.Parse(flags, "--full")
	if err != nil {
		t.Fatal(err)
	}
	if quick.rounds != quickRounds || full.rounds != fullRounds || quick.duration != quickDuration || full.duration != fullDuration {
		t.Errorf("quick %d of %v, full %d of %v", quick.rounds, quick.duration, full.rounds, full.duration)
	}
	both, err := command.Parse(flags, "--head", "both")
	if err != nil || len(both.cases) != 2*len(quick.cases) {
		t.Errorf("%d cases with both heads, %d with two fields, %v", len(both.cases), len(quick.cases), err)
	}
	shared := func(c *wireCase) bool { return c.shared }
	if slices.ContainsFunc(quick.cases, shared) || !slices.ContainsFunc(full.cases, shared) || len(full.cases) <= len(quick.cases) {
		t.Errorf("%d quick cases, %d of all", len(quick.cases), len(full.cases))
	}
}

func TestColumns(t *testing.T) {
	c := columnsOf([]sample{{
		Result: load.Result{Requests: 1000, Failures: 1, Elapsed: 2 * time.Second, Latency: took(3 * time.Millisecond)},
		usage:  process.Usage{CPU: 7 * time.Millisecond}, resident: 8,
	}})
	if c.cpu[0] != 7 || c.rate[0] != 500 || c.p99[0] < 2990 || c.p99[0] > 3010 || c.failures != 1 || c.resident[0] != 8 {
		t.Errorf("columns %+v", c)
	}
}

func took(d time.Duration) *latency.Histogram {
	h := new(latency.Histogram)
	h.Record(d)
	return h
}

// used returns a sample of a server that used so much CPU time per request.
func used(perRequest time.Duration) sample {
	return sample{
		Result: load.Result{Requests: 1000, Elapsed: time.Second, Latency: took(time.Millisecond)},
		usage:  process.Usage{CPU: 1000 * perRequest, User: 250 * perRequest, System: 750 * perRequest},
	}
}

func TestTables(t *testing.T) {
	o := options{heads: []load.Head{load.Browser}}
	if err := o.choose("^64 connections$", true); err != nil {
		t.Fatal(err)
	}
	c := o.cases[0]
	// The second round ran on a machine of half the speed.
	c.samples[peers.FastHTTP] = []sample{used(10 * time.Microsecond), used(20 * time.Microsecond)}
	c.samples[peers.Epoll] = []sample{used(9 * time.Microsecond), used(18 * time.Microsecond)}
	c.samples[floorKind] = []sample{used(5 * time.Microsecond), used(10 * time.Microsecond)}
	c.absent[nginxKind] = "it is not there"
	o.kinds = []string{peers.Epoll, peers.FastHTTP, nginxKind, floorKind}
	m := &measurement{options: o}
	var got []string
	for _, row := range divided(m).Rows {
		got = append(got, strings.Join(row[1:], "; "))
	}
	want := []string{
		"browser; epoll; 3.38; 10.12; 0.90, ≤ 0.50 missed; 0.90; 1.80, ≤ 1.12 missed; -",
		"browser; fasthttp; 3.75; 11.25; 1.00; 1.00; 2.00; -",
		"browser; floor; 1.88; 5.62; 0.50; 0.50; 1.00; -",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	s := measured(m)
	if len(s.Rows) != 4 || s.Rows[1][3] != "15.00" || s.Rows[2][3] != "-" || len(s.Rows[2]) != len(s.Head) {
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

// TestPrograms: what a program is told, and what it has to be told.
func TestPrograms(t *testing.T) {
	want := map[string]string{
		"POST 1 KiB": "text", "100 KiB response": "large {body}", "JSON": "json {body}", "static file of 10 KiB": "file {body} {case}", "gzip of 10 KiB": "gzip {body} {case}",
		"TLS": "tls {case}", "sleeps 1 ms, 64 connections": "sleep {case}", "sleeps 1 ms, 512 connections": "sleep {case}",
	}
	for _, c := range allCases() {
		got := c.word()
		needsBody, needsCase := c.needs()
		if needsBody {
			got += " {body}"
		}
		if needsCase {
			got += " {case}"
		}
		if is := want[c.name]; got != is && (got != "text" || is != "") {
			t.Errorf("%s: %s, want %s", c.name, got, is)
		}
		file, err := c.writeBody(t.TempDir())
		if body, readErr := os.ReadFile(file); err != nil || readErr != nil || !bytes.Equal(body, c.body()) {
			t.Errorf("%s: a file of %d bytes, %v, %v", c.name, len(body), err, readErr)
		}
	}
}

// A short measurement with real servers: every kind of load, and every answer.
func TestSmoke(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	o, err := command.Parse(flags,
		"--rounds", "1", "--head", "browser", "--servers", "epoll,multipath,prefork,gnet,nginx,floor", // and the baseline
		"--before", os.Args[0], "--program", "other="+os.Args[0]+" "+otherRole+" {addr}", "--program", "full="+os.Args[0]+" "+otherRole+" {addr} {body}",
		"--case", "^(pipeline of 16|connection per request|POST 1 KiB|100 KiB response|TLS|JSON|64 connections, all CPUs, half load)$")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range o.cases {
		c.load.Requests = 1000 // however long they take
	}
	m, err := measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	d := document(m)
	if err := errors.Join(d.Publish(&text), d.PublishFolder(folder, "wire")); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.cases {
		for _, kind := range []string{peers.Epoll, multipath, peers.FastHTTP, before} {
			samples := c.samples[kind]
			if len(samples) != 1 || samples[0].Requests == 0 || samples[0].Failures != 0 || samples[0].usage.CPU <= 0 || samples[0].Latency.Percentile(99) <= 0 || samples[0].resident == 0 {
				t.Errorf("%s, %s: %+v", c.label(), kind, samples)
			}
		}
		for kind, want := range map[string]bool{"other": c.peer == (peers.Options{}), "full": !c.peer.TLS} {
			samples := c.samples[kind]
			if is := len(samples) == 1 && samples[0].Requests > 0 && samples[0].Failures == 0; is != want || !want && c.absent[kind] == "" {
				t.Errorf("%s, program %s: %+v, left out because %q", c.name, kind, samples, c.absent[kind])
			}
		}
		if got, want := len(c.samples[preforkKind]) == 1, c.shared; got != want {
			t.Errorf("%s, prefork: measured %v, want %v", c.name, got, want)
		}
		if got, want := len(c.samples[peers.Gnet]) == 1, !c.peer.TLS; got != want {
			t.Errorf("%s, gnet: measured %v, want %v", c.name, got, want)
		}
		if (c.load.Rate > 0) != c.half {
			t.Errorf("%s: %v requests per second", c.name, c.load.Rate)
		}
	}
	if !strings.Contains(text.String(), "Medians of the rounds\n") {
		t.Errorf("no table in %s", &text)
	}
	for _, name := range []string{"wire.md", "wire-cpu.svg"} {
		if content, err := os.ReadFile(filepath.Join(folder, name)); err != nil || len(content) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
	if _, err := os.Stat(m.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary files were left behind: %v", err)
	}
}
