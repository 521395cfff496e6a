package prefork

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func TestWorkersServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	for name, s := range map[string]setup{
		"epoll":     {Engine: sluice.EngineEpoll},
		"perconn":   {Engine: sluice.EnginePerConn},
		"io_uring":  {Engine: sluice.EngineEpoll, IOUring: sluice.IOUringOn, TellsEngine: true},
		"auto":      {Engine: sluice.EngineEpoll, TellsEngine: true},
		"shared":    {Shared: true},
		"several":   {Listen: []string{"127.0.0.1:0", "unix:" + path}},
		"unix":      {Addr: "unix:" + path + "2"},
		"dual":      {Addr: "localhost:0", Network: "tcp"},
		"own serve": {OwnServe: true},
		"bare":      {BareProducer: true},
		"own sock":  {BareProducer: true, Reuseport: true, Addr: freeAddr(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Workers, s.Threshold = 2, 10
			f := start(t, s, true)
			addrs := f.printed("addr ")
			if len(addrs) == 0 {
				addrs = []string{"addr " + s.Addr}
			}
			if len(addrs) != 1+len(s.Listen) {
				t.Errorf("addresses: %q", addrs)
			}
			for _, a := range addrs {
				a, network := strings.TrimPrefix(a, "addr "), "tcp"
				if strings.HasPrefix(a, "/") {
					network = "unix"
				}
				served := make(map[string]bool)
				until(t, "both workers answer on "+a, func() bool {
					body, err := get(network, a, "/")
					if err != nil && s.Reuseport { // without control, ready workers may not serve yet
						return false
					}
					if err != nil || !strings.HasSuffix(body, " true") {
						t.Fatalf("%q, %v", body, err)
					}
					served[body] = true
					return len(served) == 2
				})
			}
			if s.TellsEngine { // each worker has probed the kernel
				server := sluice.Server{Engine: s.Engine, IOUring: s.IOUring}
				if server.EngineInfo(nil).Engine == sluice.EngineEpoll {
					server.IOUring = sluice.IOUringOn // what auto is with the workers' GOMAXPROCS=1
				}
				info := server.EngineInfo(nil)
				if told := f.printed("engine "); len(told) != 2 || told[0] != told[1] || told[0] != "engine "+info.String() {
					t.Errorf("the workers tell %q, want twice %v", told, info)
				}
			}
			f.signal(os.Interrupt)
			if status := f.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if name == "unix" {
				if _, err := os.Lstat(path + "2"); err == nil {
					t.Error("the socket is left behind")
				}
			}
		})
	}
}

// freeAddr returns an address on which no process listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := nettest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// A process that a worker starts is no worker, and no environment variable marks it
// as one (I15).
func TestEnvironment(t *testing.T) {
	f := start(t, setup{Workers: 1}, true)
	body, err := f.get("/environment")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{markerVariable, "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS"} {
		if strings.Contains(body, name+"=") {
			t.Errorf("a worker's environment has %s", name)
		}
	}
	if body, err := f.get("/grandchild"); body != "false   <nil>" || err != nil {
		t.Errorf("grandchild: %q, %v", body, err)
	}
}

// A second fleet on the same address fails before it starts a worker (I23).
func TestSecondStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	f := start(t, setup{Workers: 2, Listen: []string{"unix:" + path}}, true)
	for _, addr := range []string{f.addr(0), "unix:" + path} {
		second := start(t, setup{Workers: 2, Addr: addr}, false)
		if status := second.wait(); status != 1 {
			t.Errorf("%s: exit status %d", addr, status)
		}
		until(t, "it says why", func() bool { return second.count("address already in use") == 1 })
		if n := len(second.printed("spawn ")); n != 0 {
			t.Errorf("%s: %d workers were started", addr, n)
		}
		if _, err := get(networkOf(addr), strings.TrimPrefix(addr, unixPrefix), "/"); err != nil {
			t.Errorf("%s: the first fleet: %v", addr, err)
		}
	}
}

func networkOf(addr string) string {
	if strings.HasPrefix(addr, unixPrefix) {
		return "unix"
	}
	return "tcp"
}

// A unix socket that a killed fleet left is replaced. Another file is not.
func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	addr := unixPrefix + path
	f := start(t, setup{Workers: 1, Addr: addr, Grace: 100 * time.Millisecond}, true)
	f.cmd.Process.Kill()
	<-f.ended
	for _, pid := range f.pids() {
		until(t, "the orphan ends", func() bool { return !isAlive(pid) })
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	again := start(t, setup{Workers: 1, Addr: addr}, true)
	if _, err := get("unix", path, "/"); err != nil {
		t.Error(err)
	}
	again.signal(os.Interrupt)
	again.wait()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	third := start(t, setup{Workers: 1, Addr: addr}, false)
	if status := third.wait(); status != 1 {
		t.Errorf("exit status %d", status)
	}
	until(t, "it says why", func() bool { return third.count("is not a socket") == 1 })
}

func TestTLS(t *testing.T) {
	f := start(t, setup{Workers: 2, TLS: true}, true)
	body, err := getTLS(f.addr(0))
	if err != nil || !strings.HasSuffix(body, " true") {
		t.Errorf("%q, %v", body, err)
	}
	// The user's own TLS settings still apply with the shared ticket keys.
	if c, err := tls.Dial("tcp", f.addr(0), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("TLS 1.2 is spoken, which the server's TLSConfig forbids")
	}
}

// Every thread of a worker has the affinity of its slot.
func TestAffinity(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU")
	}
	f := start(t, setup{Workers: 2, Pinned: true}, true)
	seen := make(map[string]bool)
	until(t, "both workers answer", func() bool {
		body, err := f.get("/cpus")
		if err != nil {
			t.Fatal(err)
		}
		seen[body] = true
		return len(seen) == 2
	})
	if !seen["0 slot 0, 1 CPUs"] || !seen["1 slot 1, 1 CPUs"] {
		t.Error(seen)
	}
}
