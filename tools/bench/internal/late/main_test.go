package late

import (
	"os"
	"slices"
	"strings"
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
	o, err := command.Parse(flags, "--duration", "1s", "--procs", "2", "--engines", "perconn", "--hogs", "0")
	if err != nil || o.duration != time.Second || !slices.Equal(o.procs, []int{2}) || !slices.Equal(o.engines, []string{peers.PerConn}) || o.hogs != 0 {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{
		{"--duration", "0s"}, {"--late", "0s"}, {"--stuck", "1ms"}, {"--procs", "0"}, {"--engines", "fasthttp"}, {"--clients", "0"}, {"--hogs", "-1"}, {"--uploads", "-1"},
	} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// Each engine answers every kind of request.
func TestRun(t *testing.T) {
	o := options{
		duration: 500 * time.Millisecond, late: time.Minute, stuck: 2 * time.Minute,
		engines: []string{peers.Epoll, peers.PerConn}, procs: []int{2}, clients: 16, hogs: 1,
	}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v: %+v", err, d.Sections)
	}
	if table := d.Sections[0]; len(table.Rows) != 2 || len(table.Rows[0]) != len(table.Head) || table.Rows[0][2] == "0" || len(table.Notes) != 1 {
		t.Errorf("table %+v", table)
	}
}

// Every server of the uploads has all kinds of requests answered.
func TestUploads(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	o := options{duration: 50 * time.Millisecond, engines: []string{peers.Epoll, peers.PerConn}, uploads: 1, before: os.Args[0]}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	table := d.Sections[0]
	if len(table.Rows) != 3 {
		t.Fatalf("rows %q", table.Rows)
	}
	for _, row := range table.Rows {
		if len(row) != len(table.Head) || row[1] == "0" || row[5] == "0" || row[9] == "0" {
			t.Errorf("row %q", row)
		}
	}
}

// A request is late once and stuck once; a large one is only stuck.
func TestOverdue(t *testing.T) {
	began := time.Now()
	small, big := &request{what: "small", began: began}, &request{what: "big", began: began, isBig: true}
	try := &trial{
		options: options{late: 100 * time.Millisecond, stuck: time.Second},
		pending: map[*request]struct{}{small: {}, big: {}},
	}
	for _, step := range []struct {
		age  time.Duration
		want string
	}{
		{longestHandler, ""},
		{longestHandler + 101*time.Millisecond, "small"},
		{longestHandler + 200*time.Millisecond, ""},
		{longestHandler + 1001*time.Millisecond, "big small"},
		{longestHandler + time.Minute, ""},
	} {
		var found []string
		for _, r := range try.overdue(began.Add(step.age), 0) {
			found = append(found, r.what)
		}
		slices.Sort(found)
		if got := strings.Join(found, " "); got != step.want {
			t.Errorf("after %v: %q, want %q", step.age, got, step.want)
		}
	}
	if try.tally.stuck != 2 {
		t.Errorf("%d were stuck, want 2", try.tally.stuck)
	}
}
