package attacks

import (
	"os"
	"strconv"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
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
	for _, bad := range [][]string{{"--units", "10"}, {"--conns", "0"}, {"--slow-clients", "0"}, {"--attack", "("}, {"--attack", "none"}, {"--servers", "gopher"}} {
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

// TestHeld: Sluice holds at most 1.5 MiB for a connection, and 1 KiB for each request that waits.
func TestHeld(t *testing.T) {
	o := options{conns: 10, kinds: []string{peers.Epoll, peers.PerConn}, holdings: allHoldings}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := d.Sections[1].Rows
	if len(rows) != 2*len(allHoldings) {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if n, err := strconv.Atoi(row[2]); err != nil || n < peers.FreshSize>>10 || n > 1536+heldStreams {
			t.Errorf("held: %v", row)
		}
	}
}

// TestSlowHandshakes: Sluice's event engine has no goroutine for a client whose ClientHello is
// not complete, and honest clients are served meanwhile.
func TestSlowHandshakes(t *testing.T) {
	const clients = 300
	o := options{conns: 1, slowClients: clients, kinds: []string{peers.Epoll, peers.NetHTTP}, hesitations: allHesitations}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := d.Sections[2].Rows
	if len(rows) != 3*len(allHesitations) {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		open, _ := strconv.Atoi(row[2])
		goroutines, err := strconv.Atoi(row[3])
		if err != nil || open < clients || row[1] != peers.NetHTTP && row[0] != "a ClientHello, no Finished" && goroutines > clients/10 {
			t.Errorf("held: %v", row)
		}
	}
}
