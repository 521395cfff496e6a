package nettest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An Again is a process of the running test binary, for what must be measured apart.
type Again struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// StartAgain starts the test binary with arguments, and with a variable of the environment
// by which the test there knows its part. The end of the test ends it, if Stop does not.
func StartAgain(t testing.TB, variable string, arguments ...string) *Again {
	t.Helper()
	a := &Again{t: t, cmd: exec.Command(os.Args[0], arguments...)}
	a.cmd.Env = append(os.Environ(), variable)
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.in, a.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	})
	return a
}

// Line waits for the next line that the process prints.
func (a *Again) Line() string {
	a.t.Helper()
	text, err := a.out.ReadString('\n')
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// Ask sends a line to the process, and waits for its answer.
func (a *Again) Ask(line string) string {
	a.t.Helper()
	fmt.Fprintln(a.in, line)
	return a.Line()
}

// Stop ends the input of the process and waits for its end. What it prints is dropped.
func (a *Again) Stop() {
	a.in.Close()
	_, _ = io.Copy(io.Discard, a.out)
	_ = a.cmd.Wait()
}

// PrivateMemory returns the bytes of a process that are in memory and in no file. The test is
// skipped if the system does not tell.
func PrivateMemory(t testing.TB, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := bytes.Cut(status, []byte("RssAnon:"))
	fields := strings.Fields(string(rest))
	if !found || len(fields) == 0 {
		t.Skip("this system does not tell a process's anonymous memory")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// FreedMemory is PrivateMemory of this process, after what is unused was given to the system.
func FreedMemory(t testing.TB) int64 {
	t.Helper()
	runtime.GC()
	runtime.GC() // pools are emptied by the second one
	debug.FreeOSMemory()
	return PrivateMemory(t, os.Getpid())
}

// ListenPlain listens for TCP, not for multipath TCP.
func ListenPlain(t testing.TB) net.Listener {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	ln, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// TimeCPU is the loop of a benchmark. It reports the CPU time of this process for each of
// count parts of f, in the unit "cpu-ns/" and part. It waits between calls, so that peers
// have read what was sent.
func TimeCPU(b *testing.B, part string, count int, f func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	f()
	var cpu time.Duration
	for b.Loop() {
		time.Sleep(50 * time.Millisecond)
		before := used()
		f()
		cpu += used() - before
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*count), "cpu-ns/"+part)
}
