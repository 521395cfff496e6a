package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable is this program's binary as it was when the master started: also
// after the file was replaced or removed, all workers are of one version.
type executable struct {
	fd   int    // -1 where there is no /proc
	file string // what exec is called with
}

// firstExecutableFD is the lowest number that the binary gets.
const firstExecutableFD = 256

// openExecutable opens it, with a number above those of inherited files, which a
// child gives to its own before it executes the binary.
func openExecutable(inherited int) (*executable, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return findExecutable()
	}
	defer unix.Close(fd)
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, max(firstExecutableFD, 2*inherited))
	if err == nil {
		return &executable{fd: high, file: fmt.Sprintf("/proc/self/fd/%d", high)}, nil
	}
	// The limit on descriptors is that low: the master's table instead of the
	// child's own. That needs rights on the master, which usually are there.
	low, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sluice: the program's binary: %w", err)
	}
	return &executable{fd: low, file: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), low)}, nil
}

// findExecutable finds the binary by its name, which may stand for another one
// later: without /proc there is no name for an open file.
func findExecutable() (*executable, error) {
	file, err := os.Executable()
	if err != nil { // it asks /proc, too
		if file, err = exec.LookPath(os.Args[0]); err == nil {
			file, err = filepath.Abs(file)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sluice: the program's binary is not found (is /proc mounted?): %w", err)
	}
	return &executable{fd: -1, file: file}, nil
}

// path returns a name for exec.
func (e *executable) path() string { return e.file }

// close closes it.
func (e *executable) close() {
	if e.fd >= 0 {
		unix.Close(e.fd)
		e.fd = -1
	}
}

// dieWithParent has the kernel send SIGTERM when the spawner's thread ends,
// which is when the master ends. It is the second line behind the lifeline.
func dieWithParent(a *syscall.SysProcAttr) {
	if a.Pdeathsig == 0 {
		a.Pdeathsig = syscall.SIGTERM
	}
}

// pinThread binds the calling thread to cpus, and with it what it starts, until
// restore is called. The caller is locked to its thread.
func pinThread(cpus []int) (restore func(), err error) {
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("sluice: affinity: %w", err)
	}
	for _, cpu := range cpus {
		wanted.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return nil, fmt.Errorf("sluice: affinity %v: %w", cpus, err)
	}
	return func() { unix.SchedSetaffinity(0, &before) }, nil
}
