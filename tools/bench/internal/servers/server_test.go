package servers

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestMain(m *testing.M) {
	process.Main(Roles())
	os.Exit(m.Run())
}

func TestServersRunInProcessesOfTheirOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	for _, kind := range []string{peers.Sluice, peers.PerConn, peers.Epoll, peers.FastHTTP, peers.FastHTTPReduced, peers.NetHTTP} {
		t.Run(kind, func(t *testing.T) {
			exercise(t, Options{Kind: kind, Options: process.Options{CPU: process.AnyCPU}})
		})
	}
	if _, err := exec.LookPath("taskset"); err == nil {
		t.Run("pinned", func(t *testing.T) { exercise(t, Options{Kind: peers.NetHTTP}) })
	}
}

func exercise(t *testing.T, o Options) {
	server, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(server.Addr, "127.0.0.1:") {
		t.Errorf("address %s", server.Addr)
	}
	before, err := server.CPU()
	if err != nil {
		t.Fatal(err)
	}
	get(t, server.Addr)
	if err := server.Settle(); err != nil {
		t.Error(err)
	}
	if after, err := server.CPU(); err != nil || after <= before {
		t.Errorf("CPU time went from %v to %v, %v", before, after, err)
	}
	if bytes, err := server.AnonymousMemory(); err != nil || bytes < 1<<20 {
		t.Errorf("%d bytes of memory, %v", bytes, err)
	}
	if n, err := server.Goroutines(); err != nil || n < 2 {
		t.Errorf("%d goroutines, %v", n, err)
	}
	if n, err := server.Descriptors(); err != nil || n < 4 {
		t.Errorf("%d descriptors, %v", n, err)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("the server's process: %v", err)
	}
}

func get(t *testing.T, addr string) {
	t.Helper()
	resp, err := http.Get("http://" + addr + peers.Target)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || string(body) != peers.Body {
		t.Errorf("status %d, body %q, %v", resp.StatusCode, body, err)
	}
}

func TestUnknownKindEndsTheProcess(t *testing.T) {
	server, err := Start(t.Context(), Options{Kind: "gopher", Options: process.Options{CPU: process.AnyCPU}})
	if err != nil {
		t.Fatal(err)
	}
	if line, err := server.Line(); err == nil {
		t.Errorf("the process said %q", line)
	}
}

func TestMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	server, err := Start(t.Context(), Options{Kind: peers.NetHTTP, Options: process.Options{CPU: process.AnyCPU}})
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
	if n, err := process.SocketMemory(); err != nil || n < 0 {
		t.Errorf("%d bytes of sockets, %v", n, err)
	}
	if n, err := process.FreeSpace(t.TempDir()); err != nil || n <= 0 {
		t.Errorf("%d bytes free, %v", n, err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}
