package proxies

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

func TestMain(m *testing.M) {
	all := servers.Roles()
	maps.Copy(all, Roles())
	process.Main(all)
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--duration", "1s", "--conns", "20", "--case", "^(TLS|idle W.*)$", "--servers", "sluice,fiber", "--before", "x")
	if err != nil || o.rounds != 2 || o.duration != time.Second || o.conns != 20 || len(o.cases) != 1 || !o.cases[0].load.TLS || len(o.idle) != 1 {
		t.Errorf("options %+v, %v", o, err)
	}
	if want := []string{ours, fiber, baseline, before}; !slices.Equal(o.kinds, want) {
		t.Errorf("proxies %q, want %q", o.kinds, want)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--duration", "1ms"}, {"--conns", "0"}, {"--conns", "1000000"}, {"--case", "("}, {"--case", "none"}, {"--servers", "squid"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestRequests(t *testing.T) {
	for _, c := range allCases() {
		got := string(c.request())
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if len(body) != c.bodySize || strings.HasPrefix(head, "POST ") != (c.bodySize > 0) || strings.Contains(head, "Connection: close") != c.load.Close {
			t.Errorf("%s: %q", c.name, head)
		}
	}
}

// TestTables: a proxy that is slower than the baseline misses the goal, and what is not there has
// a reason.
func TestTables(t *testing.T) {
	took := func(perRequest time.Duration, failures int) sample {
		h := new(latency.Histogram)
		h.Record(time.Millisecond)
		return sample{Result: load.Result{Requests: 1000, Failures: failures, FirstFailure: "gone", Elapsed: time.Second, Latency: h}, cpu: 1000 * perRequest}
	}
	m := measured{proxyCase: allCases()[0], absent: map[string]string{traefik: "it is not there"}, samples: map[string][]sample{
		ours:     {took(15*time.Microsecond, 0), took(30*time.Microsecond, 2)},
		baseline: {took(10*time.Microsecond, 0), took(20*time.Microsecond, 0)},
	}}
	s := requestTable(options{rounds: 2, kinds: []string{ours, baseline, traefik}}, []measured{m})
	want := [][]string{
		{"64 connections", ours, "22.50", "1.50 (1.50–1.50)", "≤ 1.00 missed", "1000", "2 %", "1.0", "1.0", "2"},
		{"64 connections", baseline, "15.00", "1.00 (1.00–1.00)", "-", "1000", "2 %", "1.0", "1.0", "0"},
	}
	if !slices.EqualFunc(s.Rows, want, slices.Equal) {
		t.Errorf("rows %q, want %q", s.Rows, want)
	}
	notes := strings.Join(s.Notes, "\n")
	for _, note := range []string{"traefik is left out: it is not there.", "64 connections, sluice: 2 errors, the first one: gone"} {
		if !strings.Contains(notes, note) {
			t.Errorf("no %q in %q", note, notes)
		}
	}
}

// TestCheck: what a proxy answers at first must be right, and what it answers later at least long
// enough.
func TestCheck(t *testing.T) {
	c := allCases()[0]
	for _, answer := range []struct {
		status int
		body   string
		isGood bool
	}{{http.StatusOK, peers.Body, true}, {http.StatusBadGateway, peers.Body, false}, {http.StatusOK, "Hello", false}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answer.status)
			io.WriteString(w, answer.body)
		}))
		if err := c.check(&contender{addr: s.Listener.Addr().String()}); (err == nil) != answer.isGood {
			t.Errorf("%d %q: %v", answer.status, answer.body, err)
		}
		s.Close()
	}
	for received, want := range map[int64]int{12: 1, 13: 0, 200: 0} {
		r := load.Result{Requests: 1, Received: received}
		if c.checkLength(&r); r.Failures != want || (r.FirstFailure != "") != (want > 0) {
			t.Errorf("%d bytes: %d errors, %q", received, r.Failures, r.FirstFailure)
		}
	}
}

// TestMeasure has every proxy that is installed forward each kind of request, and hold idle
// connections.
func TestMeasure(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	if _, err := nginx.Find(nginxKind); err != nil {
		t.Skip(err)
	}
	program, err := command.BuildSluice(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o, err := command.Parse(flags, "--rounds", "1", "--conns", "20", "--before", program)
	if err != nil {
		t.Fatal(err)
	}
	o.program = program
	o.untilIdle = 0
	for i := range o.cases {
		o.cases[i].load.Conns = min(o.cases[i].load.Conns, 8)
	}
	o.requests = 100
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	folder := t.TempDir()
	if err := errors.Join(d.Publish(&text), d.PublishFolder(folder, "proxy")); err != nil {
		t.Fatal(err)
	}
	if len(d.Sections) != 2 {
		t.Fatalf("tables %s", &text)
	}
	checkRows(t, o, d.Sections[0], len(o.cases))
	checkRows(t, o, d.Sections[1], len(o.idle))
	if content, err := os.ReadFile(filepath.Join(folder, "proxy-cpu.svg")); err != nil || len(content) < 1000 {
		t.Errorf("the plot has %d bytes, %v", len(content), err)
	}
}

// checkRows checks that a table has each case and each proxy, without errors.
func checkRows(t *testing.T, o options, s report.Section, cases int) {
	t.Helper()
	rows := make(map[string]int)
	for _, row := range s.Rows {
		rows[row[1]]++
		isThere := row[1] != fiber || !strings.HasPrefix(row[0], "HTTP/2")
		if got := row[2] != "-"; got != isThere {
			t.Errorf("%q: measured %v, want %v", row, got, isThere)
		}
		if i := slices.Index(s.Head, "errors"); i >= 0 && isThere && row[i] != "0" {
			t.Errorf("%q: errors, want none: %q", row, s.Notes)
		}
	}
	for _, kind := range o.kinds {
		want := cases
		switch kind {
		case haproxy, traefik:
			if _, err := nginx.Find(kind); err != nil {
				want = 0
			}
		case fiber, before:
			if s.Head[0] == "connections" { // that are idle
				want = 0
			}
		}
		if rows[kind] != want || (want == 0) != strings.Contains(strings.Join(s.Notes, "\n"), kind+" is left out: ") {
			t.Errorf("%s: %s has %d rows, want %d; notes %q", s.Title, kind, rows[kind], want, s.Notes)
		}
	}
}
