package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/seeds"
)

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-part", "server", "-count", "2"})
	if err != nil || o.Count != 2 || o.CPUs != "1,2,4" || len(o.Cases) != 8 {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-part", "("}, {"-part", "none"}, {"-count", "0"}, {"-duration", "1500ms"}, {"-servers", "gopher"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if _, err := parseFlags([]string{"-list"}); !errors.Is(err, command.ErrDone) {
		t.Errorf("-list: %v", err)
	}
}

// A part's name chooses its cases and no others.
func TestParts(t *testing.T) {
	sum := 0
	for _, name := range []string{"server", "client", "prefork"} {
		o, err := parseFlags([]string{"-part", name})
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
	if sum != len(seeds.Cases()) {
		t.Errorf("%d cases, want %d", sum, len(seeds.Cases()))
	}
}
