package stall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(Roles())
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--clients", "10", "--size", "3MiB", "--engine", "perconn", "--tls", "--big", "2GiB")
	if err != nil || o.clients != 10 || o.size != 3*command.MiB || o.engine != peers.PerConn || !o.tls || o.big != 2*command.GiB {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{
		{"--clients", "0"}, {"--size", "1KiB"}, {"--size", "10"}, {"--engine", "gopher"}, {"--engine", "epoll,perconn"},
		{"--bodies", "disk"}, {"--write-timeout", "1ms"}, {"--parallel", "0"}, {"--big", "-1GiB"},
	} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", strings.Join(bad, " "))
		}
	}
}

func TestStall(t *testing.T) {
	for _, o := range []options{
		{engine: peers.Epoll, bodies: "file,memory"},
		{engine: peers.PerConn, bodies: fileBody},
		{engine: peers.Epoll, bodies: fileBody, tls: true},
	} {
		t.Run(o.over(), func(t *testing.T) {
			t.Parallel()
			o.clients, o.size = 3, 10*command.MiB
			o.writeTimeout, o.patience = 6*time.Second, time.Minute
			sections, err := stallAll(t.Context(), o, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			kinds := strings.Count(o.bodies, ",") + 1
			if len(sections) != kinds+1 || len(sections[0].Rows) != 5 || sections[0].Rows[1][7] != "3" || sections[0].Rows[4][7] != "0" {
				t.Fatalf("sections %+v", sections)
			}
			verdicts := sections[kinds]
			for _, row := range verdicts.Rows {
				if row[len(row)-1] != "met" || len(row) != len(verdicts.Head) {
					t.Errorf("row %q", row)
				}
			}
		})
	}
}

func TestMoves(t *testing.T) {
	o := options{big: 20 * command.MiB, parallel: 2, engine: peers.Epoll}
	folder := t.TempDir()
	sections, err := moveAll(t.Context(), o, folder)
	if len(sections) != 1 || len(sections[0].Rows) != 6 {
		t.Fatalf("sections %+v, %v", sections, err)
	}
	// The race detector's memory counts; everything else is an error.
	if err != nil && !strings.Contains(err.Error(), "want less than 64") {
		t.Error(err)
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// What is not the file is noticed, and so is a server that may not write.
func TestMovesNoticeFailures(t *testing.T) {
	o := options{big: 2 * command.MiB, engine: peers.Epoll}
	folder := t.TempDir()
	want, err := writeSparse(filepath.Join(folder, fileName), int64(o.big))
	if err != nil {
		t.Fatal(err)
	}
	if row, err := moveBodies(t.Context(), o, folder, moves()[0], 1, want+1); err == nil || row != nil {
		t.Errorf("another checksum: %q, %v", row, err)
	}
	if row, err := moveBodies(t.Context(), o, filepath.Join(folder, "none"), moves()[2], 1, want); err == nil || row != nil {
		t.Errorf("no folder: %q, %v", row, err)
	}
}

func TestVerdicts(t *testing.T) {
	good := stalled{clients: 10, result: stallResult{Cut: 10}}
	good.last.Peak = stalledTarget - 1
	if err := good.failure(fileBody); err != nil || good.meets(fileBody) != "< 200 MiB met" {
		t.Errorf("%s, %v", good.meets(fileBody), err)
	}
	costly := good
	costly.last.Peak++
	if err := costly.failure(fileBody); err == nil || costly.meets(fileBody) != "< 200 MiB missed" {
		t.Errorf("%s, %v", costly.meets(fileBody), err)
	}
	if err := costly.failure(memoryBody); err != nil || costly.meets(memoryBody) != "-" {
		t.Errorf("in memory: %s, %v", costly.meets(memoryBody), err)
	}
	for name, spoil := range map[string]func(*stalled){
		"a client was not cut": func(s *stalled) { s.result.Cut-- },
		"connections":          func(s *stalled) { s.last.Connections = 1 },
		"descriptors":          func(s *stalled) { s.last.descriptors = 10 },
		"goroutines":           func(s *stalled) { s.last.Goroutines = 20 },
	} {
		s := good
		spoil(&s)
		if row := s.row(fileBody); s.failure(fileBody) == nil || !strings.HasPrefix(row[len(row)-1], "missed: ") {
			t.Errorf("%s: row %q", name, row)
		}
	}
}
