package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/sys/unix"
)

// A machine is a network namespace: that of a process that sleeps.
type machine struct {
	pid  int
	addr string

	program string // the copy of Sluice that it runs
	install func(from string)
	sluice  *preforked // nil while it is off
}

// newMachine needs root.
func newMachine(t *testing.T, addr string) *machine {
	t.Helper()
	cmd := exec.Command("unshare", "--net", "sleep", "1h")
	if err := cmd.Start(); err != nil {
		t.Skipf("needs unshare: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	m := &machine{pid: cmd.Process.Pid, addr: addr}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "network namespace", func() bool {
		other, err := os.Readlink(m.namespace())
		return err == nil && other != own
	})
	return m
}

func (m *machine) namespace() string { return fmt.Sprintf("/proc/%d/ns/net", m.pid) }

// command is a command on m.
func (m *machine) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + m.namespace()}, args...)...)
}

// dial connects from m.
func (m *machine) dial(ctx context.Context, addr string) (c net.Conn, err error) {
	err = errors.Join(m.within(func() { c, err = new(net.Dialer).DialContext(ctx, "tcp", addr) }), err)
	return c, err
}

// within calls f on a thread that is on m, where sockets that f makes remain.
func (m *machine) within(f func()) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	other, err := os.Open(m.namespace())
	if err != nil {
		return err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	f()
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
	}
	return nil
}

// A network has a proxy on a machine with a switch, to which the others are connected.
type network struct {
	t        *testing.T
	args     []string // of Sluice, as the configuration of the proxy names them
	proxy    *machine
	clients  *machine
	machines []*machine
}

// newNetwork starts machines, with the flags that a configuration of deploy names; without the
// folder, so that they answer with the built-in endpoints. Without what it needs, the test is skipped.
func newNetwork(t *testing.T, config string) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if out, err := exec.Command("unshare", "--net", "ip", "link", "add", "name", "br0", "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here (CAP_NET_ADMIN, iproute2): %v, %s", err, out)
	}
	n := &network{t: t, proxy: newMachine(t, "10.41.0.10"), clients: newMachine(t, "10.41.0.100")}
	args := strings.Join(commandIn(t, config), " ")
	n.args = strings.Fields(strings.NewReplacer(" /srv/www ", " ", " auto ", " 2 ").Replace(args))
	script := `ip link set lo up; ip link add name br0 type bridge; ip addr add 10.41.0.10/24 dev br0; ip link set br0 up;`
	others := []*machine{n.clients}
	for _, addr := range machineAddrs {
		m := newMachine(t, addr)
		m.program, m.install = someProgram(t)
		m.install(binary)
		n.machines, others = append(n.machines, m), append(others, m)
	}
	for i, m := range others {
		script += fmt.Sprintf("ip link add v%d type veth peer name eth0 netns %d; ip link set v%[1]d master br0 up;", i, m.pid)
	}
	runOn(t, n.proxy, script)
	for _, m := range others {
		runOn(t, m, "ip link set lo up; ip addr add "+m.addr+"/24 dev eth0; ip link set eth0 up")
	}
	for _, m := range n.machines {
		n.start(m)
		t.Cleanup(func() { n.kill(m) })
	}
	return n
}

// startProxy starts a program on the machine of the proxy.
func (n *network) startProxy(args ...string) {
	n.t.Helper()
	var log strings.Builder
	cmd := n.proxy.command(args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // with processes of its own
		if _ = cmd.Wait(); n.t.Failed() {
			n.t.Logf("%s: %.5000s", args[0], log.String())
		}
	})
	eventually(n.t, args[0]+" that listens", func() bool {
		c, err := n.clients.dial(n.t.Context(), "10.41.0.10:80")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// newHAProxy is a network with HAProxy.
func newHAProxy(t *testing.T) *network {
	t.Helper()
	program, config := serverProgram(t, "haproxy"), filepath.Join(deployed, "haproxy", "haproxy.cfg")
	n := newNetwork(t, readDeployed(t, "haproxy", "haproxy.cfg"))
	n.startProxy(program, "-db", "-n", "1000", "-f", config) // -n: descriptors are few in some places
	for _, m := range n.machines {
		n.awaitHealth(m, "UP")
	}
	return n
}

// newNginx is a network with nginx. In its configuration, strings are replaced by others.
func newNginx(t *testing.T, oldnew ...string) *network {
	t.Helper()
	program, text := serverProgram(t, "nginx"), strings.NewReplacer(oldnew...).Replace(readDeployed(t, "nginx", "nginx.conf"))
	n := newNetwork(t, text)
	n.startProxy(program, "-e", "stderr", "-c", ownNginx(t, text), "-g", "daemon off;")
	return n
}

func runOn(t *testing.T, m *machine, script string) {
	t.Helper()
	if out, err := m.command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// start starts Sluice on m.
func (n *network) start(m *machine) {
	n.t.Helper()
	m.sluice = startPreforkedCommand(n.t, m.command(append([]string{m.program}, n.args...)...))
}

// stop ends Sluice on m as systemd does.
func (n *network) stop(m *machine) {
	n.t.Helper()
	_ = m.sluice.Process.Signal(syscall.SIGTERM)
	if err := m.sluice.Wait(); err != nil {
		n.t.Error(err)
	}
}

// kill ends all processes on m immediately, except the one that sleeps.
func (n *network) kill(m *machine) {
	n.t.Helper()
	own, _ := os.Readlink(m.namespace())
	for isAlive := own != ""; isAlive; {
		isAlive = false
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			n.t.Fatal(err)
		}
		for _, process := range processes {
			pid, _ := strconv.Atoi(filepath.Base(process))
			if there, _ := os.Readlink(process + "/ns/net"); there == own && pid != m.pid {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				isAlive = true // or it dies, or has started others before
			}
		}
	}
	_ = m.sluice.Wait()
}

// figures returns what HAProxy says about m.
func (n *network) figures(m *machine) map[string]string {
	n.t.Helper()
	client := &sluice.Client{DialContext: n.clients.dial, ReadTimeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	_, text, err := client.Get(nil, "http://10.41.0.10:8404/;csv")
	if err != nil {
		return nil // it starts
	}
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("# ")))).ReadAll()
	if err != nil || len(rows) == 0 {
		n.t.Fatalf("%v: %.200s", err, text)
	}
	named := make(map[string]string)
	for _, row := range rows {
		if row[0] == "machines" && strings.HasSuffix(row[1], m.addr[len(m.addr)-1:]) {
			for i, name := range rows[0] {
				named[name] = row[i]
			}
		}
	}
	return named
}

// awaitHealth waits until HAProxy has seen what has become of m.
func (n *network) awaitHealth(m *machine, status string) {
	n.t.Helper()
	eventually(n.t, m.addr+" that is "+status, func() bool {
		f := n.figures(m)
		return f["status"] == status && f["check_status"] != "" && f["check_status"] != "INI"
	})
}
