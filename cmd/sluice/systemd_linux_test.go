package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/process/systemd"
	"github.com/sluicehttp/sluice/internal/process/systemd/systemdtest"
)

// serveUnder returns "sluice serve" with the arguments, as systemd starts it.
func serveUnder(m *systemdtest.Manager, sockets []*os.File, names string, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary, "serve"}, args...)...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.Path, "WATCHDOG_USEC=30000", "FDSTORE=9", fmt.Sprintf("LISTEN_FDS=%d", len(sockets)), "LISTEN_FDNAMES="+names)
	cmd.ExtraFiles = sockets
	return cmd
}

// socketOf returns a listening socket and its address.
func socketOf(t *testing.T) (*os.File, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, ln.Addr().String()
}

// One process speaks with systemd: it takes a socket by its name or its address, says that
// it is ready, that it reads its files again, that it lives and that it ends.
func TestServeUnderSystemd(t *testing.T) {
	socket, addr := socketOf(t)
	other, _ := socketOf(t)
	access := filepath.Join(t.TempDir(), "access")
	for _, address := range []string{addr, "fd:web"} {
		m := systemdtest.New(t, "")
		states := func(want ...string) {
			t.Helper()
			eventually(t, strings.Join(want, ", "), func() bool { return slices.Equal(m.States(), want) })
		}
		p := startCommand(t, serveUnder(m, []*os.File{other, socket}, "other:web", "--addr", address, "--access-log", access))
		if p.url != "http://"+addr {
			t.Errorf("it serves %s, want %s", p.url, addr)
		}
		if resp, _ := p.ask(t, "GET", "/plaintext"); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		states("READY=1")
		if m.Count("STATUS=serves "+addr) != 1 || m.Count("FDSTORE=1") != 0 {
			t.Errorf("%q", m.Messages())
		}
		eventually(t, "signs of life", func() bool { return m.Count("WATCHDOG=1") > 3 })
		p.Process.Signal(syscall.SIGHUP)
		states("READY=1", "RELOADING=1", "READY=1")
		p.Process.Signal(syscall.SIGTERM)
		states("READY=1", "RELOADING=1", "READY=1", "STOPPING=1")
		if err := p.Wait(); err != nil || m.Count("EXTEND_TIMEOUT_USEC=12000000") != 1 {
			t.Errorf("%v, %q", err, m.Messages())
		}
	}
}

// The socket outlives the process: a connection that comes between two of them is answered
// by the second one.
func TestServeStoresItsSocket(t *testing.T) {
	m := systemdtest.New(t, "")
	p := startCommand(t, serveUnder(m, nil, "", "--addr", "127.0.0.1:0"))
	addr := strings.TrimPrefix(p.url, "http://")
	eventually(t, "the socket", func() bool { return len(m.Store()) == 1 })
	p.Process.Signal(syscall.SIGTERM)
	p.Wait()
	waiting, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	startCommand(t, serveUnder(m, m.Store(), systemd.Stored, "--addr", addr))
	fmt.Fprint(waiting, "GET /plaintext HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	answer := make([]byte, 12)
	if _, err := waiting.Read(answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("%q, %v", answer, err)
	}
}

// A process that takes the place of workers has systemd keep one of their sockets: the kernel would
// go on to give connections to the others, and no process would accept them.
func TestServeAfterWorkers(t *testing.T) {
	m := systemdtest.New(t, "")
	p := startCommand(t, serveUnder(m, nil, "", "--addr", "127.0.0.1:0", "--prefork=2"))
	eventually(t, "the sockets", func() bool { return len(m.Store()) == 2 })
	p.Process.Signal(syscall.SIGTERM)
	p.Wait()
	startCommand(t, serveUnder(m, m.Store(), systemd.Stored+":"+systemd.Stored, "--addr", strings.TrimPrefix(p.url, "http://")))
	eventually(t, "one socket", func() bool { return m.Count("FDSTOREREMOVE=1") == 1 && len(m.Store()) == 1 })
}

// Workers share the sockets of systemd.
func TestPreforkUnderSystemd(t *testing.T) {
	socket, addr := socketOf(t)
	m := systemdtest.New(t, "")
	p := startCommand(t, serveUnder(m, []*os.File{socket}, "web", "--addr", "fd:web", "--prefork=2"))
	if resp, _ := p.ask(t, "GET", "/plaintext"); resp.StatusCode != 200 || p.url != "http://"+addr {
		t.Error(resp.Status, p.url)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil || !slices.Equal(m.States(), []string{"READY=1", "STOPPING=1"}) {
		t.Errorf("%v, %q", err, m.States())
	}
}

// With --upgrade, the process that systemd knows holds the sockets and the workers.
func TestUpgradeUnderSystemd(t *testing.T) {
	socket, addr := socketOf(t)
	m := systemdtest.New(t, "")
	p := startCommand(t, serveUnder(m, []*os.File{socket}, "web", "--addr", "fd:web", "--prefork=2", "--upgrade"))
	if resp, _ := p.ask(t, "GET", "/plaintext"); resp.StatusCode != 200 || p.url != "http://"+addr {
		t.Error(resp.Status, p.url)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil || !slices.Equal(m.States(), []string{"READY=1", "STOPPING=1"}) {
		t.Errorf("%v, %q", err, m.States())
	}
}

// What systemd has not passed is an error with what it has.
func TestNoSuchSocket(t *testing.T) {
	socket, addr := socketOf(t)
	for _, mode := range [][]string{{}, {"--prefork=2"}, {"--prefork=2", "--upgrade"}} {
		out, err := serveUnder(systemdtest.New(t, ""), []*os.File{socket}, "web", append([]string{"--addr", "fd:other"}, mode...)...).CombinedOutput()
		if want := fmt.Sprintf(`no listening socket "other" to this process: there are "web" on %s`, addr); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, %s", err, out)
		}
	}
}

// LISTEN_FDS counts more than was passed: nothing of this process is taken for a socket.
func TestTooFewSockets(t *testing.T) {
	socket, _ := socketOf(t)
	for _, mode := range [][]string{{}, {"--prefork=2"}, {"--prefork=2", "--upgrade"}} {
		cmd := serveUnder(systemdtest.New(t, ""), []*os.File{socket}, "web", append([]string{"--addr", "fd:web"}, mode...)...)
		cmd.Env = append(cmd.Env, "LISTEN_FDS=7")
		out, err := cmd.CombinedOutput()
		if want := "sluice: LISTEN_FDS=7, and descriptor 4 was not passed to this process, or it is used already\n"; err == nil || string(out) != want {
			t.Errorf("%v: %v, %s", mode, err, out)
		}
	}
}
