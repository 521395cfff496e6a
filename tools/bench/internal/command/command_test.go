package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/report"
)

type options struct {
	rounds  int
	pattern string
}

var errMissed = errors.New("a target was missed")

func flags(set *pflag.FlagSet) func() (options, error) {
	var o options
	set.IntVar(&o.rounds, "rounds", 3, "rounds")
	set.StringVar(&o.pattern, "case", ".", "cases")
	return func() (options, error) {
		if o.rounds < 1 {
			return o, errors.New("no rounds")
		}
		return o, nil
	}
}

// A failure after something was measured does not hide it.
func TestCommand(t *testing.T) {
	cmd := New("x", "Measure", flags, func(_ context.Context, o options) (report.Document, error) {
		return report.Document{Sections: []report.Section{{Title: o.pattern, Head: []string{"a"}, Rows: [][]string{{"b"}}}}}, errMissed
	})
	var out strings.Builder
	folder := t.TempDir()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"--case", "a|b", "--rounds=5", "--out", folder})
	if err := cmd.Execute(); !errors.Is(err, errMissed) {
		t.Errorf("error %v", err)
	}
	written, err := os.ReadFile(filepath.Join(folder, "x.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), string(written)} {
		if !strings.Contains(text, "go -C tools/bench run . x --case='a|b' --rounds=5\n") {
			t.Errorf("no command line in %q", text)
		}
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--none"}, {"stray"}} {
		cmd.SetArgs(bad)
		if err := cmd.Execute(); err == nil || errors.Is(err, errMissed) {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}

func TestRequire(t *testing.T) {
	if err := Require("no-such-tool-here"); err == nil {
		t.Error("a tool that does not exist is not missed")
	}
}
