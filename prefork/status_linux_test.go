package prefork

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// withStatus adds the status to a fleet's handler.
func withStatus(p *Prefork, h sluice.RequestHandler) sluice.RequestHandler {
	status := StatusHandler(p)
	return func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/status" {
			status(ctx)
			return
		}
		h(ctx)
	}
}

// statusAt returns the answer of the status handler at an address.
func statusAt(t *testing.T, network, addr string) (s Status) {
	t.Helper()
	s, err := tryStatus(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryStatus is statusAt of a master that may be gone.
func tryStatus(network, addr string) (s Status, err error) {
	body, err := get(network, addr, "/status?format=json")
	if err == nil {
		err = json.Unmarshal([]byte(body), &s)
	}
	return s, err
}

// admin returns the admin's address.
func (f *fleet) admin() string {
	f.t.Helper()
	lines := f.printed("admin ")
	if len(lines) != 1 {
		f.t.Fatalf("admin: %q", lines)
	}
	return strings.TrimPrefix(lines[0], "admin ")
}

// The master and each worker report the same, and it is correct.
func TestStatusOfFleet(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, Threshold: 9, Admin: "127.0.0.1:0", Linger: time.Millisecond}, true)
			const requests, idle = 30, 3
			for range requests {
				if _, err := f.get("/"); err != nil {
					t.Fatal(err)
				}
			}
			for range idle {
				f.dial().get("/")
			}
			gate := filepath.Join(t.TempDir(), "gate")
			busy := f.dial()
			busy.send("GET /gate?file=" + gate + " HTTP/1.1\r\nHost: x\r\n\r\n")
			sameAsAsked := func(s Status) bool {
				return s.Wanted == 2 && s.Ready && len(s.Workers) == 2 && len(s.Slots) == 2 && s.Master.PID == f.cmd.Process.Pid && s.Master.ResidentBytes > 1<<20 &&
					s.Total.InFlight >= 1 && s.Total.Idle >= idle && s.Total.OldestRequest > 0
			}
			until(t, "the master knows", func() bool { return sameAsAsked(statusAt(t, "tcp", f.admin())) })
			for range 8 { // most likely different workers
				until(t, "a worker knows", func() bool { return sameAsAsked(statusAt(t, "tcp", f.addr(0))) })
			}
			s := statusAt(t, "tcp", f.admin())
			if s.Total.Requests < requests+idle || s.Total.Requests != s.Total.Responses[1] || s.Total.BytesRead < 30*requests || s.Total.BytesWritten < 100*requests ||
				s.Total.Accepted < requests+idle+1 {
				t.Errorf("%+v", s.Total)
			}
			for i, w := range s.Workers {
				if w.Slot != i || w.Generation != 1 || w.PID == 0 || w.Phase != "ready" || time.Since(w.Started) > time.Hour || w.ResidentBytes < 1<<20 || w.Goroutines < 2 {
					t.Errorf("%+v", w)
				}
			}
			open(t, gate)
			busy.answer()
			before := s.Total.Requests
			nettest.Signal(t, s.Workers[0].PID, syscall.SIGKILL)
			until(t, "a worker knows of the crash", func() bool {
				s := statusAt(t, "tcp", f.addr(0))
				return s.Crashes == 1 && s.Slots[0].Crashes == 1 && s.Slots[0].Restarts == 1 && len(s.Workers) == 2 && s.Workers[0].Generation == 2
			})
			if s := statusAt(t, "tcp", f.addr(0)); s.Total.Requests < before {
				t.Errorf("%d requests, before there were %d", s.Total.Requests, before)
			}
		})
	}
}

// Only the user may connect to the admin's unix socket, and it is removed with the
// master.
func TestAdminSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	f := start(t, setup{Workers: 1, Admin: unixPrefix + path}, true)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != adminMode {
		t.Errorf("%v, %v", info, err)
	}
	if s := statusAt(t, "unix", path); s.Wanted != 1 {
		t.Errorf("%+v", s)
	}
	for _, pid := range f.pids() { // no worker has it open
		if n := socketsNamed(t, pid, path); n != 0 {
			t.Errorf("a worker has the admin's socket")
		}
	}
	second := start(t, setup{Workers: 1, Admin: unixPrefix + path}, false)
	if status := second.wait(); status != 1 || len(second.pids()) != 0 {
		t.Errorf("exit status %d, %d workers were started", status, len(second.pids()))
	}
	f.signal(os.Interrupt)
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("a process still listens")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// socketsNamed counts a process's descriptors of the unix socket at path.
func socketsNamed(t *testing.T, pid int, path string) (count int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	inodes := make(map[string]bool)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) == 8 && fields[7] == path {
			inodes["socket:["+fields[6]+"]"] = true
		}
	}
	if len(inodes) == 0 {
		t.Fatal("the system does not know the socket")
	}
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && inodes[target] {
			count++
		}
	}
	return count
}
