package attacks

import (
	"os"
	"testing"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/servers"
	"github.com/sluicehttp/sluice/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(servers.Roles())
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--units", "200", "--conns", "2", "--attack", "^PING$", "--servers", "epoll")
	if err != nil || o.units != 200 || o.conns != 2 || len(o.attacks) != 1 || len(o.kinds) != 1 {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--units", "10"}, {"--conns", "0"}, {"--attack", "("}, {"--attack", "none"}, {"--servers", "gopher"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestRun: Sluice ends every attack.
func TestRun(t *testing.T) {
	o := options{units: 10_000, conns: 1, kinds: []string{peers.Epoll}, attacks: allAttacks}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range d.Sections[0].Rows {
		if row[2] == "–" {
			t.Errorf("not ended: %v", row)
		}
	}
}
