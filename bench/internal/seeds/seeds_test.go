package seeds

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
	"github.com/sluicehttp/sluice/bench/internal/workers"
)

func TestMain(m *testing.M) {
	process.Main(workers.Roles())
	os.Exit(m.Run())
}

const serverReport = "text\n\n| case | P | ours ns | fasthttp ns | net/http ns | ours/fasthttp | ours/net/http | allocs ours | fasthttp | net/http |\n" +
	"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n" +
	"| Get1ReqPerConn | 1 | 500 | 1000 | 8000 | 0.50 (0.40–0.60) | 0.06 | 0 | 0 | 29 |\n" +
	"| Get1ReqPerConn | 2 | 300 | 600 | 5000 | 0.50 (0.40–0.60) | 0.06 | 0 | 0 | 29 |\n"

func TestServerFigures(t *testing.T) {
	figures, err := serverFigures(parseTables(serverReport))
	if err != nil || len(figures) != 2 {
		t.Fatalf("%+v, %v", figures, err)
	}
	s := section("Title", "file.svg", figures, publishedServers())
	want := []string{
		"Get1ReqPerConn 1 500 1000 8000 0.50 (0.40–0.60) 0 0 29 1559 12052 0.13 0.12",
		"Get1ReqPerConn 2 300 600 5000 0.50 (0.40–0.60) 0 0 29 - - - 0.12",
	}
	for i, row := range s.Rows {
		if got := strings.Join(row, " "); got != want[i] || len(row) != len(s.Head) {
			t.Errorf("row %q, want %q", got, want[i])
		}
	}
	if len(s.Plots) != 1 || len(s.Plots[0].Panels) != 1 || len(s.Plots[0].Panels[0].Bars) != 5 {
		t.Errorf("plots %+v", s.Plots)
	}
	if _, err := serverFigures(parseTables("| other |\n|--|\n| x |\n")); err == nil {
		t.Error("no error from another table")
	}
	if _, err := serverFigures(nil); err == nil {
		t.Error("no error without a table")
	}
}

func TestClientFigures(t *testing.T) {
	const markdown = "| case | server | P | client | ns/op | ÷ fasthttp | CPU ns/op | ÷ fasthttp | B/op | allocs/op |\n|--|--|\n" +
		"| GetEndToEnd1TCP | own | 1 | sluice | 50 | 0.50 (0.50–0.50) | 40 | 0.4 | 0 | 0.00 |\n" +
		"| GetEndToEnd1TCP | own | 1 | fasthttp | 100 | 1.00 (1.00–1.00) | 40 | 1 | 0 | 0.01 |\n" +
		"| GetEndToEnd1TCP | own | 1 | bytes | 10 | 0.10 (1.00–1.00) | 40 | 1 | 0 | 0.01 |\n" +
		"| GetEndToEnd1TCP | own | 1 | net/http | 400 | 4.00 (1.00–1.00) | 40 | 1 | 0 | 56.00 |\n"
	figures, err := clientFigures(parseTables(markdown))
	if err != nil || len(figures) != 1 {
		t.Fatalf("%+v, %v", figures, err)
	}
	f := figures[0]
	if f.nanoseconds != [contenders]string{"50", "100", "400"} || f.ratio != "0.50 (0.50–0.50)" || f.allocs != [contenders]string{"0.00", "0.01", "56.00"} {
		t.Errorf("figure %+v", f)
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
	quick := make(map[part]int)
	for _, c := range Cases() {
		if c.IsQuick {
			quick[c.part]++
		}
	}
	if len(quick) != 3 {
		t.Errorf("quick cases %v", quick)
	}
}

func TestParseWrk(t *testing.T) {
	const output = "  Latency Distribution\n     50%    4.55ms\n     75%    4.82ms\n     90%    5.46ms\n     99%   15.49ms\n" +
		"  1581916 requests in 15.09s, 140.30MB read\n  Socket errors: connect 0, read 318, write 0, timeout 2\n" +
		"  Non-2xx or 3xx responses: 5\nRequests/sec: 104861.58\nTransfer/sec:      9.30MB\n"
	s, err := parseWrk(output)
	if err != nil || s.rate != 104861.58 || s.requests != 1581916 || s.p50 != 4550*time.Microsecond || s.p99 != 15490*time.Microsecond || s.failures != 325 {
		t.Errorf("sample %+v, %v", s, err)
	}
	for _, bad := range []string{"", strings.Replace(output, "99%", "98%", 1), strings.Replace(output, "1581916", "0", 1)} {
		if s, err := parseWrk(bad); err == nil {
			t.Errorf("%q: %+v without an error", bad, s)
		}
	}
}

// Every part measures what was chosen, and nothing else.
func TestMeasure(t *testing.T) {
	if err := command.Require("wrk"); err != nil {
		t.Skip(err)
	}
	o := Quick()
	o.CPUs, o.BenchTime, o.ClientRounds, o.Kinds = "1", time.Millisecond, 1, []string{peers.PerConn, "nginx"}
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

// Without wrk, the report says so.
func TestWithoutWrk(t *testing.T) {
	t.Setenv("PATH", "")
	o := Quick()
	for _, c := range Cases() {
		if c.part == preforkPart {
			o.Cases = append(o.Cases, c)
		}
	}
	sections, err := Measure(t.Context(), o)
	if err != nil || len(sections) != len(handlers()) {
		t.Fatalf("%d sections, %v", len(sections), err)
	}
	for _, s := range sections {
		if len(s.Rows) > 0 || len(s.Head) == 0 || !strings.Contains(strings.Join(s.Notes, " "), "wrk is not installed") {
			t.Errorf("section %+v", s)
		}
	}
	if err := (report.Document{Sections: sections}).Publish(io.Discard, ""); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	for _, o := range []Options{Quick(), Full()} {
		if err := o.Check(); err != nil {
			t.Error(err)
		}
		o.Duration += time.Millisecond
		if err := o.Check(); err == nil {
			t.Error("wrk takes whole seconds")
		}
	}
}
