package ratios

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
)

const output = `goos: linux
BenchmarkServer/Get1ReqPerConn/sluice-2         	    1000	      1234.5 ns/op	       7 B/op	       1 allocs/op
BenchmarkServer/Get1ReqPerConn/fasthttp-2       	    1000	      2469 ns/op	       7 B/op	       0 allocs/op
BenchmarkServer/GetBrowser/sluice               	    1000	      9 ns/op	       8.5 cpu-ns/op
BenchmarkOther 1 2 ns/op
PASS
`

func TestCases(t *testing.T) {
	cases, err := casesOf(output, Options{Bench: "PerConn$", CPUs: "1,2"})
	if err != nil || len(cases) != 2 || cases[0].Title() != "Get1ReqPerConn" || cases[1].CPU != 2 || !slices.Equal(cases[1].Contenders, []string{"sluice", "fasthttp"}) {
		t.Fatalf("cases %+v, %v", cases, err)
	}
	if _, err := casesOf(output, Options{Bench: "no such", CPUs: "1"}); err == nil {
		t.Error("no cases, no error")
	}
	c := cases[0]
	for range 2 {
		for _, by := range c.Contenders {
			r, err := resultOf(output, c.Name+"/"+by)
			if err != nil {
				t.Fatal(err)
			}
			c.Results[by] = append(c.Results[by], r)
		}
	}
	s := table(Options{Table: Servers}, cases[:1])
	for i, want := range []string{
		"Get1ReqPerConn; 1; sluice; 1234; 0.50 (0.50–0.50); -; -; 7; 1",
		"Get1ReqPerConn; 1; fasthttp; 2469; 1.00 (1.00–1.00); -; -; 7; 0",
	} {
		if got := strings.Join(s.Rows[i], "; "); got != want || len(s.Rows[i]) != len(s.Head) {
			t.Errorf("row %q, want %q", got, want)
		}
	}
	if _, err := resultOf(output, "BenchmarkServer/Get1ReqPerConn/nethttp"); !errors.Is(err, errNoResult) {
		t.Errorf("error %v", err)
	}
}

// Every table's benchmarks run and have the contender that the others are compared
// with.
func TestMeasure(t *testing.T) {
	for table, bench := range map[Table]string{Servers: "^GetBrowser$", Clients: "^GetEndToEnd1Inmemory/own$", Compress: "^gzip_1/1KiB$", Levels: "^HTML/1KiB$"} {
		cases, err := Measure(t.Context(), Options{Table: table, Bench: bench, CPUs: "1", Rounds: 1, BenchTime: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		from, err := table.source()
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) != 1 || len(cases[0].Contenders) < 3 || len(cases[0].Column(from.base, "ns/op")) != 1 || cases[0].Column(from.base, "ns/op")[0] <= 0 {
			t.Errorf("%s: %+v", table, cases)
		}
	}
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--bench", "Browser", "--cpu", "1,4", "--count", "3", "--benchtime", "50ms")
	if want := (Options{Servers, "Browser", "1,4", 3, 50 * time.Millisecond}); err != nil || o != want {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--bench", "("}, {"--cpu", "0"}, {"--cpu", "two"}, {"--count", "0"}, {"--table", "x"}, {"--benchtime", "0s"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
