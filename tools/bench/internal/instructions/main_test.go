package instructions

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/proxies"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/bench/internal/websockets"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// TestMain lets the test be the processes of a run.
func TestMain(m *testing.M) {
	roles := servers.Roles()
	maps.Copy(roles, proxies.Roles())
	maps.Copy(roles, websockets.Roles())
	process.Main(roles)
	os.Exit(m.Run())
}

// TestCount: a request over TCP has a plausible number of instructions, also one that is metered
// or forwarded, and a message of a WebSocket.
func TestCount(t *testing.T) {
	if _, err := exec.LookPath("valgrind"); err != nil {
		t.Skip("valgrind is not installed")
	}
	if _, err := nginx.Find("nginx"); err != nil {
		t.Skip(err)
	}
	keep := t.TempDir()
	o, err := command.Parse(flags, "--rounds", "1", "--requests", "1024", "--case", "two fields|32 B", "--servers", "epoll", "--keep", keep)
	if err != nil {
		t.Fatal(err)
	}
	d, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rows := d.Sections[0].Rows; len(rows) != 4 {
		t.Errorf("%q: want four rows", rows)
	}
	for _, row := range d.Sections[0].Rows {
		if n, err := strconv.Atoi(row[2]); err != nil || n < 1000 || n > 40_000 {
			t.Errorf("%q: want some thousand instructions", row)
		}
	}
	if kept, err := os.ReadDir(keep); err != nil || len(kept) != 8 {
		t.Errorf("%d files are kept, %v: want one for each of two runs", len(kept), err)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"--rounds", "0"}, {"--requests", "0"}, {"--servers", "none"}, {"--case", "none"}, {"--program", "epoll=x"}, {"--program", "old="},
	} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestTotal(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, test := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"events: Ir\nfn=(1) f\n1 5\n\ntotals: 4057\n", 4057, true},
		{"events: Ir\n", 0, false},
		{"totals: many\n", 0, false},
	} {
		if err := os.WriteFile(out, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := totalOf(out); n != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %d, %v", test.text, n, err)
		}
	}
}
