package seeds

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
)

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--part", "server", "--count", "2")
	if err != nil || o.Count != 2 || o.CPUs != "1,2,4" || len(o.Cases) != 8 {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--part", "("}, {"--part", "none"}, {"--count", "0"}, {"--duration", "0s"}, {"--servers", "gopher"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// A part's name chooses its cases and no others.
func TestParts(t *testing.T) {
	sum := 0
	for _, name := range []string{"server", "client", "prefork"} {
		o, err := command.Parse(flags, "--part", name)
		if err != nil {
			t.Fatal(err)
		}
		sum += len(o.Cases)
		for _, c := range o.Cases {
			if part, _, _ := strings.Cut(c.Name, ": "); !strings.HasSuffix(part, name) {
				t.Errorf("%s chooses %s", name, c.Name)
			}
		}
	}
	if sum != len(Cases()) {
		t.Errorf("%d cases, want %d", sum, len(Cases()))
	}
}
