package profile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// TestMain lets the test be the generator of a run.
func TestMain(m *testing.M) {
	process.Main(load.Roles())
	os.Exit(m.Run())
}

func TestFlags(t *testing.T) {
	o, err := command.Parse(flags, "--duration", "2s", "--case", "^proxy", "--to", "x")
	if err != nil || o.duration != 2*time.Second || o.to != "x" || len(o.cases) == 0 || o.cases[0].part != proxy {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--duration", "0"}, {"--duration", "1500ms"}, {"--case", "none"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestRun: each part of the command answers, and what comes out is a profile.
func TestRun(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	to := filepath.Join(t.TempDir(), "default.pgo")
	o, err := command.Parse(flags, "--duration", "1s", "--case", "^(files, TLS|proxy, WebSocket)$", "--to", to)
	if err != nil {
		t.Fatal(err)
	}
	if o.program, err = command.BuildSluice(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rows := d.Sections[0].Rows; len(rows) != 2 {
		t.Errorf("rows %q", rows)
	}
	// gzip, which the go command recognises a profile by.
	if text, err := os.ReadFile(to); err != nil || len(text) < 1000 || string(text[:2]) != "\x1f\x8b" {
		t.Errorf("a profile of %d bytes, %v", len(text), err)
	}
}
