package prefork

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/process/systemd"
	"github.com/sluicehttp/sluice/internal/process/systemd/systemdtest"
)

// The master says when it is ready, for how long a restart goes on, how one ended, that it
// is alive, and that it ends. Workers have none of systemd's variables.
func TestNotifications(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	m := systemdtest.New(t, "")
	f := start(t, setup{
		Workers: 2, Broken: broken, Linger: time.Millisecond, Grace: time.Second, Delay: time.Millisecond,
		systemd: []string{"NOTIFY_SOCKET=" + m.Path, "WATCHDOG_USEC=30000", "FDSTORE=0"},
	}, true)
	states := []string{"READY=1"}
	says := func(more ...string) {
		t.Helper()
		states = append(states, more...)
		until(t, strings.Join(states, ", "), func() bool { return slices.Equal(m.States(), states) })
	}
	says()
	if m.Count("MAINPID="+itoa(f.cmd.Process.Pid)) != 1 {
		t.Errorf("%q", m.Messages())
	}
	ready := slices.IndexFunc(m.Messages(), func(s string) bool { return strings.HasPrefix(s, "READY=1") })
	if got := m.Messages()[ready]; !strings.HasSuffix(got, "\nSTATUS=2 of 2 workers serve") {
		t.Errorf("ready, and the status is that of before: %q", got)
	}
	f.signal(syscall.SIGHUP)
	says("RELOADING=1", "READY=1")
	for _, c := range []struct{ broken, status string }{
		{"reload", "broken: reload"},
		{"boot", "rolling restart failed in slot 0: sluice: worker 0 cannot start: config: broken: boot"},
	} {
		if err := os.WriteFile(broken, []byte(c.broken), 0o600); err != nil {
			t.Fatal(err)
		}
		f.signal(syscall.SIGHUP)
		says("RELOADING=1", "READY=1")
		until(t, c.status, func() bool {
			return slices.ContainsFunc(m.Messages(), func(s string) bool {
				return strings.HasPrefix(s, "STATUS=2 of 2 workers serve, the last restart failed: ") && strings.HasSuffix(s, c.status)
			})
		})
	}
	alive := m.Count("WATCHDOG=1")
	until(t, "it is alive", func() bool { return m.Count("WATCHDOG=1") > alive+3 })
	if text, err := f.get("/environment"); err != nil || strings.Contains(text, "NOTIFY_SOCKET") || strings.Contains(text, "WATCHDOG") || strings.Contains(text, "FDSTORE") {
		t.Errorf("a worker's environment: %v, %s", err, text)
	}
	f.signal(syscall.SIGTERM)
	f.wait()
	says("STOPPING=1")
	if m.Count("EXTEND_TIMEOUT_USEC=3001000") != 1 {
		t.Errorf("%q", m.Messages())
	}
	for _, message := range m.Messages() {
		if strings.HasPrefix(message, "RELOADING=1") && !strings.HasPrefix(message, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("%q", message)
		}
	}
}

// If a restart is asked for during another one, the master says that it is ready when both are
// over.
func TestNotificationOfTheSecondRestart(t *testing.T) {
	m := systemdtest.New(t, "")
	f := start(t, setup{
		Workers: 1, Admin: "127.0.0.1:0", Linger: time.Millisecond, Soak: 500 * time.Millisecond, Grace: time.Second,
		systemd: []string{"NOTIFY_SOCKET=" + m.Path},
	}, true)
	until(t, "it is ready", func() bool { return m.Count("READY=1") == 1 })
	for n := range 2 {
		f.signal(syscall.SIGHUP)
		until(t, "it reloads", func() bool { return m.Count("RELOADING=1") == n+1 })
	}
	until(t, "it is ready again", func() bool { return m.Count("READY=1") == 2 })
	if s := statusAt(t, "tcp", f.admin()); s.Restarts != 2 || s.Soaking || s.Rolling {
		t.Errorf("ready after %d restarts, soaking %v, rolling %v", s.Restarts, s.Soaking, s.Rolling)
	}
}

// A master that does not start says nothing about readiness, and one whose loop does not
// run is silent, so that systemd's watchdog ends it.
func TestWatchdogNeedsTheLoop(t *testing.T) {
	m := systemdtest.New(t, "")
	t.Setenv("NOTIFY_SOCKET", m.Path)
	t.Setenv("WATCHDOG_USEC", "3000")
	service, err := systemd.Take()
	if err != nil {
		t.Fatal(err)
	}
	config := supervise.Config{Workers: 1, NoSignals: true, Logger: quiet(), Args: []string{"false"}, Env: []string{roleVariable + "=nothing"}}
	n := newNotifier(service, &config)
	if n.master, err = supervise.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go n.watch(ctx)
	time.Sleep(20 * time.Millisecond) // several times the watchdog's
	if got := m.Messages(); len(got) > 0 {
		t.Errorf("before the loop runs: %q", got)
	}
	n.master.Stop()
	go n.master.Run(ctx)
	until(t, "it is alive", func() bool { return m.Count("WATCHDOG=1") > 0 })
}

// clientOf returns a client on an open connection.
func clientOf(t *testing.T, c net.Conn) *client {
	c.SetDeadline(time.Now().Add(2 * patience))
	return &client{t, c, bufio.NewReader(c)}
}

// body returns a response's body, or why there is none.
func body(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// listenFiles returns sockets that listen on addresses.
func listenFiles(t *testing.T, network string, addresses ...string) (files []*os.File, addrs []string) {
	t.Helper()
	for _, address := range addresses {
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		if u, isUnix := ln.(*net.UnixListener); isUnix {
			u.SetUnlinkOnClose(false)
		}
		f, err := ln.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		t.Cleanup(func() { f.Close() })
		files, addrs = append(files, f), append(addrs, ln.Addr().String())
	}
	return files, addrs
}

// Sockets of a socket unit are found by their address or their name. Connections that came
// before the start are answered, and those that come between two processes wait.
func TestSocketActivation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	files, addrs := listenFiles(t, "tcp", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	unixFiles, _ := listenFiles(t, "unix", path)
	s := setup{
		Workers: 2, Addr: addrs[0], Listen: []string{"fd:web", unixPrefix + path}, Grace: patience,
		passed: append(files, unixFiles...), systemd: []string{"LISTEN_FDNAMES=first:web:spare:web:path"},
	}
	for range 2 {
		waiting, err := net.Dial("tcp", addrs[1])
		if err != nil {
			t.Fatal(err)
		}
		defer waiting.Close()
		f := start(t, s, true)
		if f.count(`systemd has passed a socket on which nothing listens: "spare" on `+addrs[2]) != 1 {
			t.Error("nothing is said about a socket that nobody has claimed")
		}
		c := clientOf(t, waiting)
		pids := map[string]bool{}
		for _, text := range []string{c.get("/"), body(get("tcp", addrs[0], "/")), body(get("tcp", addrs[3], "/")), body(get("unix", path, "/"))} {
			pids[strings.Fields(text)[0]] = true
		}
		for _, pid := range f.pids() {
			delete(pids, itoa(pid))
		}
		if len(pids) > 0 {
			t.Errorf("processes answer that are no workers: %v", pids)
		}
		if got := f.printed("addr "); !slices.Equal(got, []string{"addr " + addrs[0], "addr " + addrs[1], "addr " + addrs[3], "addr " + path}) {
			t.Errorf("%q", got)
		}
		f.signal(syscall.SIGTERM)
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error("the socket's path is systemd's, and is gone")
		}
	}
	s.Listen = []string{"fd:other"}
	f := start(t, s, false)
	if status := f.wait(); status != 1 || f.count(`no listening socket "other"`) != 1 {
		t.Errorf("exit status %d", status)
	}
}

// With FDSTORE, connections that come between two masters wait in the sockets of their
// slots. It does not matter how many workers the second one has.
func TestStoredSockets(t *testing.T) {
	m := systemdtest.New(t, "")
	addr := freeAddr(t)
	s := setup{Workers: 2, Addr: addr, Grace: patience, Network: "tcp4", systemd: []string{"NOTIFY_SOCKET=" + m.Path, "FDSTORE=9"}}
	const queued = 40
	var waiting []net.Conn
	for _, workers := range []int{2, 1, 3, 3} {
		s.Workers, s.passed = workers, m.Store()
		s.systemd = append(s.systemd[:2:2], "LISTEN_FDNAMES="+strings.TrimSuffix(strings.Repeat(systemd.Stored+":", len(s.passed)), ":"))
		f := start(t, s, true)
		for _, c := range waiting {
			clientOf(t, c).get("/")
			c.Close()
		}
		f.signal(syscall.SIGTERM)
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		until(t, "the sockets are stored", func() bool { return len(m.Store()) == max(2, workers) })
		waiting = nil
		for range queued { // nobody listens but the sockets
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			waiting = append(waiting, c)
		}
	}
	// Another address: those that are stored are of no use.
	s.Addr, s.passed = freeAddr(t), m.Store()
	s.systemd = append(s.systemd[:2:2], "LISTEN_FDNAMES="+strings.TrimSuffix(strings.Repeat(systemd.Stored+":", len(s.passed)), ":"))
	start(t, s, true)
	until(t, "the old ones are discarded", func() bool { return m.Count("FDSTOREREMOVE=1") == 1 && len(m.Store()) == 3 })
}
