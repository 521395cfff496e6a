package h2

import (
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

func TestParseStreamsFlags(t *testing.T) {
	o, err := command.Parse(streamsFlags, "--rounds", "1", "--case", "downloads$", "--servers", "net/http")
	if err != nil || o.rounds != 1 || len(o.company) != 1 || !slices.Equal(o.kinds, []string{baseline, peers.NetHTTP}) {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--conns", "0"}, {"--duration", "1ms"}, {"--case", "("}, {"--case", "none"}, {"--servers", "gopher"}} {
		if _, err := command.Parse(streamsFlags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestStreams: every installed server answers small requests, and what is beside them.
func TestStreams(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	o, err := command.Parse(streamsFlags, "--rounds", "1", "--conns", "1", "--duration", "100ms")
	if err != nil {
		t.Fatal(err)
	}
	d, err := runStreams(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := d.Sections[0].Rows
	if want := 3 * len(allCompany); len(rows) < want {
		t.Fatalf("%d rows, want %d and more: %q", len(rows), want, rows)
	}
	for _, row := range rows {
		if len(row) != len(d.Sections[0].Head) || row[len(row)-1] != "0" || row[0] != "alone" && row[len(row)-2] == "0" {
			t.Errorf("%q", row)
		}
	}
}
