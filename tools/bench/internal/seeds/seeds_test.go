package seeds

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/prefork"
	"github.com/sluicehttp/sluice/tools/bench/internal/ratios"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(prefork.Roles())
	os.Exit(m.Run())
}

func TestFigures(t *testing.T) {
	result := func(ns, allocs float64) []ratios.Result { return []ratios.Result{{"ns/op": ns, "allocs/op": allocs}} }
	var cases []*ratios.Case
	for cpu := 1; cpu <= 2; cpu++ {
		cases = append(cases, &ratios.Case{Name: "BenchmarkServer/Get1ReqPerConn", CPU: cpu, Results: map[string][]ratios.Result{
			"sluice": result(500, 0), "fasthttp": result(1000, 0), "nethttp": result(8000, 29), "bytes": result(1, 0),
		}})
	}
	s := section("Title", "file.svg", figuresOf(cases), publishedServers())
	want := []string{
		"Get1ReqPerConn 1 500 1000 8000 0.50 (0.50–0.50) 0 0 29 1559 12052 0.13 0.12",
		"Get1ReqPerConn 2 500 1000 8000 0.50 (0.50–0.50) 0 0 29 - - - 0.12",
	}
	for i, row := range s.Rows {
		if got := strings.Join(row, " "); got != want[i] || len(row) != len(s.Head) {
			t.Errorf("row %q, want %q", got, want[i])
		}
	}
	if len(s.Plots) != 1 || len(s.Plots[0].Panels) != 1 || len(s.Plots[0].Panels[0].Bars) != 5 {
		t.Errorf("plots %+v", s.Plots)
	}
}

// The published tables are complete: each case has both libraries' figures at
// GOMAXPROCS 1 and 4, and a short run has some cases of every part.
func TestPublishedTables(t *testing.T) {
	for _, published := range [][]publication{publishedServers(), publishedClients()} {
		if len(published) != 8 {
			t.Errorf("%d published cases", len(published))
		}
		for _, p := range published {
			for _, procs := range []string{"1", "4"} {
				if at := p.at(procs); at.fasthttp <= 0 || at.netHTTP <= at.fasthttp {
					t.Errorf("%s at GOMAXPROCS %s: %+v", p.name, procs, at)
				}
			}
			if at := p.at("2"); at != (times{}) {
				t.Errorf("%s at GOMAXPROCS 2: %+v", p.name, at)
			}
		}
	}
}

// Every part measures what was chosen, and nothing else.
func TestMeasure(t *testing.T) {
	if err := command.Require(); err != nil {
		t.Skip(err)
	}
	o := quick()
	o.CPUs, o.BenchTime, o.ClientRounds, o.Kinds = "1", time.Millisecond, 1, []string{peers.PerConn, "nginx"}
	o.Duration = time.Second // 512 connections need some of it on a busy machine
	for _, c := range Cases() {
		switch c.own {
		case "Get10KReqPerConn", "DoFastServer", "GetEndToEnd1Inmemory", "plain handler":
			o.Cases = append(o.Cases, c)
		}
	}
	sections, err := Measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sections {
		for _, row := range s.Rows {
			got = append(got, s.Title+", "+row[0])
			if len(row) != len(s.Head) || slices.Contains(row[1:3], "") {
				t.Errorf("%s: row %q", s.Title, row)
			}
		}
		if len(s.Plots) != 1 || len(s.Notes) < 2 {
			t.Errorf("%s: %d plots, notes %q", s.Title, len(s.Plots), s.Notes)
		}
	}
	want := []string{
		"In memory: servers, Get10KReqPerConn", "In memory: clients, DoFastServer", "In memory: clients, GetEndToEnd1Inmemory",
		"Prefork over the wire: a plain handler, perconn", "Prefork over the wire: a plain handler, perconn prefork",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	for _, o := range []Options{quick(), Full()} {
		if err := o.Check(); err != nil {
			t.Error(err)
		}
		o.Duration = 0
		if err := o.Check(); err == nil {
			t.Error("no error from no time")
		}
	}
}

// quick returns the options of a run that takes less than a minute, without cases.
func quick() Options {
	return Options{Kinds: Kinds(), CPUs: "1,2,4", Count: 1, BenchTime: 50 * time.Millisecond, ClientRounds: 3, Rounds: 1, Duration: 200 * time.Millisecond}
}
