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
	for _, kind := range []string{peers.Sluice, peers.FastHTTP, peers.FastHTTPReduced, peers.NetHTTP} {
		t.Run(kind, func(t *testing.T) { exercise(t, kind, AnyCPU) })
	}
	if _, err := exec.LookPath("taskset"); err == nil {
		t.Run("pinned", func(t *testing.T) { exercise(t, peers.NetHTTP, 0) })
	}
}

func exercise(t *testing.T, kind string, cpu int) {
	server, err := StartServer(t.Context(), cpu, kind)
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
	resp, err := http.Get("http://" + server.Addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || string(body) != peers.Body {
		t.Errorf("status %d, body %q, %v", resp.StatusCode, body, err)
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
	if err := server.Stop(); err != nil {
		t.Errorf("the server's process: %v", err)
	}
}

func TestUnknownKindEndsTheProcess(t *testing.T) {
	server, err := StartServer(t.Context(), AnyCPU, "gopher")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := server.Line(); err == nil {
		t.Errorf("the process said %q", line)
	}
}
