package process

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/bench/internal/peers"
)

func TestMain(m *testing.M) {
	Main(nil)
	os.Exit(m.Run())
}

func TestServersRunInProcessesOfTheirOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	for _, kind := range []string{peers.Sluice, peers.PerConn, peers.Epoll, peers.FastHTTP, peers.FastHTTPReduced, peers.NetHTTP} {
		t.Run(kind, func(t *testing.T) {
			exercise(t, ServerOptions{Kind: kind, Options: Options{CPU: AnyCPU}, Addresses: 2})
		})
	}
	if _, err := exec.LookPath("taskset"); err == nil {
		t.Run("pinned", func(t *testing.T) { exercise(t, ServerOptions{Kind: peers.NetHTTP}) })
	}
}

func exercise(t *testing.T, o ServerOptions) {
	server, err := StartServer(t.Context(), o)
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
	if len(server.Addrs) != max(1, o.Addresses) || server.Addrs[0] != server.Addr {
		t.Errorf("addresses %q, first %q", server.Addrs, server.Addr)
	}
	for _, addr := range server.Addrs {
		get(t, addr)
	}
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
	resp, err := http.Get("http://" + addr + "/")
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
	server, err := StartServer(t.Context(), ServerOptions{Kind: "gopher", Options: Options{CPU: AnyCPU}})
	if err != nil {
		t.Fatal(err)
	}
	if line, err := server.Line(); err == nil {
		t.Errorf("the process said %q", line)
	}
}

func TestCheckConnections(t *testing.T) {
	if err := CheckConnections(1); err != nil {
		t.Error(err)
	}
	for _, bad := range []int{0, 1 << 30} {
		if CheckConnections(bad) == nil {
			t.Errorf("%d connections: no error", bad)
		}
	}
}
