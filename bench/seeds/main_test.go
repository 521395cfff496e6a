package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

func TestMain(m *testing.M) {
	process.Main(map[string]process.Role{serverRole: serve})
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-part", "server", "-count", "2"})
	if err != nil || o.count != 2 || o.cpus != "1,2,4" || o.part.MatchString(clientPart) {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-part", "("}, {"-part", "none"}, {"-count", "0"}, {"-duration", "1500ms"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
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

// The published tables are complete.
func TestPublishedTables(t *testing.T) {
	for published, cases := range map[string]int{"server": len(publishedServers()), "client": len(publishedClients())} {
		if cases != 16 { // 8 at GOMAXPROCS 1 and at 4
			t.Errorf("%s: %d published cases", published, cases)
		}
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

// The prefork servers start, answer wrk, and end.
func TestPreforkSmoke(t *testing.T) {
	if err := command.Require("wrk"); err != nil {
		t.Skip(err)
	}
	for _, kind := range preforkKinds {
		for _, many := range []bool{false, true} {
			s := &subject{kind: kind, prefork: many}
			t.Run(s.name(), func(t *testing.T) {
				t.Parallel()
				var err error
				if s.server, err = startServer(t.Context(), serverConfig{Kind: kind, Prefork: many, Workers: 2}); err != nil {
					t.Fatal(err)
				}
				got, err := s.turn(t.Context(), time.Second)
				if err != nil || got.cpu <= 0 || got.failures > 0 {
					t.Errorf("sample %+v, %v", got, err)
				}
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
