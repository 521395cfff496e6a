package main

import (
	"testing"
	"time"
)

func TestParseResult(t *testing.T) {
	s, err := parseResult("Running 1s test\n  stuff\n\nRESULT 1000 2 1000500 750\n")
	want := sample{requests: 1000, failures: 2, duration: 1000500 * time.Microsecond, p99: 750 * time.Microsecond}
	if err != nil || s != want {
		t.Errorf("parseResult = %+v, %v", s, err)
	}
	for _, bad := range []string{"", "unable to connect\n", "\nRESULT 1 2\n", "\nRESULT 0 0 1000 0\n", "\nRESULT 5 0 0 0\n"} {
		if s, err := parseResult(bad); err == nil {
			t.Errorf("parseResult(%q) = %+v without an error", bad, s)
		}
	}
}

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-rounds", "2", "-duration", "1s", "-case", "pipeline"})
	if err != nil || o.rounds != 2 || o.duration != time.Second || len(o.cases) != 1 || o.cases[0].depth != 16 {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-duration", "1500ms"}, {"-case", "("}, {"-case", "none"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestColumns(t *testing.T) {
	cpu, rate, p99, failures := columns([]sample{
		{requests: 1000, failures: 1, duration: 2 * time.Second, p99: 3 * time.Millisecond, cpu: 7 * time.Millisecond},
	})
	if cpu[0] != 7 || rate[0] != 500 || p99[0] != 3000 || failures != 1 {
		t.Errorf("cpu %v, rate %v, p99 %v, failures %d", cpu, rate, p99, failures)
	}
}
