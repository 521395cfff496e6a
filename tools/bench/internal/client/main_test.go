package client

import (
	"os"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(servers.Roles())
	process.Main(Roles())
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--requests", "1000", "--case", "1 caller$")
	if err != nil || o.rounds != 2 || o.requests != 1000 || len(o.cases) != 2 {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--requests", "10"}, {"--case", "("}, {"--case", "none"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestRun has every client send requests of each case.
func TestRun(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	d, err := run(t.Context(), options{rounds: 1, requests: 1000, cases: allCases})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, c := range allCases {
		rows += len(c.contenders)
	}
	if got := len(d.Sections[0].Rows); got != rows {
		t.Errorf("%d rows, want %d", got, rows)
	}
}
