package process

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/bench/internal/peers"
)

func TestMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	server, err := StartServer(t.Context(), ServerOptions{Kind: peers.NetHTTP, Options: Options{CPU: AnyCPU}})
	if err != nil {
		t.Fatal(err)
	}
	get(t, server.Addr)
	m, err := server.Memory()
	if err != nil || m.Resident < 1<<20 || m.Proportional < 1<<20 || m.Peak < m.Resident {
		t.Errorf("memory %+v, %v", m, err)
	}
	if err := server.ResetPeak(); err != nil {
		t.Error(err)
	}
	if n, err := SocketMemory(); err != nil || n < 0 {
		t.Errorf("%d bytes of sockets, %v", n, err)
	}
	if n, err := FreeSpace(t.TempDir()); err != nil || n <= 0 {
		t.Errorf("%d bytes free, %v", n, err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

func TestKibibytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "status")
	text := "12-34 rw [rollup]\nPss_Dirty:  9 kB\nPss:      7 kB\nVmRSS:\t     12 kB\nThreads:\t3\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := kibibytes(name, "VmRSS", "Pss")
	if err != nil || !slices.Equal(got, []int64{12 << 10, 7 << 10}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"VmHWM", "Threads"} {
		if got, err := kibibytes(name, bad); err == nil {
			t.Errorf("%s: %v without an error", bad, got)
		}
	}
}
