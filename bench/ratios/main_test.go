package main

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const name = "BenchmarkServerGet1ReqPerConn"
	output := "goos: linux\n" + name + "10KClients-2 \t 5 \t 9999 ns/op\t 0 B/op\t 9 allocs/op\n" +
		name + "-2   \t  118719\t      1850.5 ns/op\t       7 B/op\t       3 allocs/op\nPASS\n"
	r, err := parse(output, name)
	if err != nil || r.nanoseconds != 1850.5 || r.allocs != 3 {
		t.Errorf("parse = %+v, %v", r, err)
	}
	for _, bad := range []string{"", "PASS\n", name + "-2 100 many ns/op\n"} {
		if r, err := parse(bad, name); err == nil {
			t.Errorf("parse(%q) = %+v without an error", bad, r)
		}
	}
}

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-bench", "Browser", "-cpu", "1,4", "-count", "3", "-benchtime", "50ms"})
	if err != nil || len(o.cpus) != 2 || o.cpus[1] != 4 || o.rounds != 3 || o.benchTime != 50*time.Millisecond || !o.bench.MatchString("GetBrowser") {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-bench", "("}, {"-cpu", "0"}, {"-cpu", "two"}, {"-count", "0"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
