package idle

import (
	"os"
	"slices"
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

func TestMeasure(t *testing.T) {
	for _, tls := range []bool{false, true} {
		name := "plain"
		if tls {
			name = "TLS"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := measure(t.Context(), peers.NetHTTP, 300, tls)
			if err != nil {
				t.Fatal(err)
			}
			// net/http keeps a goroutine and two 4 KiB buffers for a
			// connection.
			if grown := f.perConn(f.held); f.conns != 300 || f.goroutines < 300 || grown < 4<<10 || grown > 200<<10 {
				t.Errorf("%d bytes per connection (%+v)", grown, f)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		kind    string
		perConn int64
		conns   int64
		tls     bool
		want    string
	}{
		{peers.Epoll, 128, 15_000, false, "≤ 128 met"},
		{peers.Epoll, 129, 15_000, false, "≤ 128 missed"},
		{peers.Epoll, 7_000, 15_000, true, "≤ 8192 met"},
		{peers.PerConn, 5_347, 15_000, false, "≤ 6144 met"},
		{peers.PerConn, 4_083, 15_000, true, "-"},
		{peers.NetHTTP, 1, 15_000, false, "-"},
		{peers.Epoll, 129, 100, false, "-"},
	} {
		f := figures{conns: c.conns, before: 1 << 20, settled: 1<<20 + c.conns*c.perConn}
		if got := f.verdict(c.kind, c.tls); got != c.want {
			t.Errorf("%s, %d bytes: %q, want %q", c.kind, c.perConn, got, c.want)
		}
	}
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--conns", "10", "--tls", "--servers", "epoll,net/http")
	if err != nil || o.conns != 10 || !o.tls || !slices.Equal(o.kinds, []string{peers.Epoll, peers.NetHTTP}) {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--conns", "0"}, {"--conns", "1000000000"}, {"--servers", ""}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
