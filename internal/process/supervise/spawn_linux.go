package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// executable is the binary of a version, as it was when it was opened. So all workers
// of the version run the same program, even after the file was replaced or removed.
type executable struct {
	id      string // names it for a Holder
	fd      int    // -1 where there is no /proc
	file    string // the path for exec
	origin  string // the path by which it was opened, for messages
	closing sync.Mutex
}

// firstExecutableFD is the lowest descriptor number for the binary.
const firstExecutableFD = 256

// errNotKept: without /proc, a binary is started by its path.
var errNotKept = errors.New("sluice: the program's binary cannot be kept open (is /proc mounted?)")

// openExecutable opens this program's binary.
func openExecutable(inherited int) (*executable, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return findExecutable(os.Executable())
	}
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return keepExecutable(fd, startedAs(path), inherited)
}

// startedAs returns the path by which this program was started, if it leads to the binary that
// runs, which is at path. Symbolic links in it may lead to another one later.
func startedAs(path string) string {
	name, err := namedPath()
	if err != nil {
		return path
	}
	named, err := os.Stat(name)
	running, err2 := os.Stat("/proc/self/exe")
	if err != nil || err2 != nil || !os.SameFile(named, running) {
		return path
	}
	return name
}

// namedPath returns the path of the file that the program's name stands for.
func namedPath() (string, error) {
	file, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// reopen opens the file that has the binary's path now.
func (e *executable) reopen(inherited int) (*executable, error) {
	if e.file == e.origin { // the binary that runs could not be started again
		return nil, errNotKept
	}
	fd, err := unix.Open(e.origin, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sluice: the program's binary: %w", &os.PathError{Op: "open", Path: e.origin, Err: err})
	}
	return keepExecutable(fd, e.origin, inherited)
}

// keepExecutable keeps a binary by another descriptor, and closes fd. Its number is
// above those of inherited files, because a child assigns those numbers before it
// executes the binary.
func keepExecutable(fd int, origin string, inherited int) (*executable, error) {
	defer unix.Close(fd)
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, max(firstExecutableFD, 2*inherited))
	if err == nil {
		return &executable{id: newID(), fd: high, file: fmt.Sprintf("/proc/self/fd/%d", high), origin: origin}, nil
	}
	// The limit on descriptors is too low: the child uses the master's descriptor
	// table instead of its own. That needs permission to read the master's /proc
	// entry, which is usually there.
	low, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sluice: the program's binary: %w", err)
	}
	return &executable{id: newID(), fd: low, file: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), low), origin: origin}, nil
}

// findExecutable finds the binary by its name. The name may refer to another file
// later, but without /proc an open file has no name. file and err are the result of
// os.Executable, which reads /proc, too.
func findExecutable(file string, err error) (*executable, error) {
	if err != nil {
		file, err = namedPath()
	}
	if err != nil {
		return nil, fmt.Errorf("sluice: the program's binary is not found (is /proc mounted?): %w", err)
	}
	return &executable{fd: -1, file: file, origin: file}, nil
}

// newID returns an id that no other binary has.
func newID() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

// heldExecutable is the binary that a Holder keeps under an id.
func heldExecutable(f *os.File, id, origin string, inherited int) (*executable, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	e, err := keepExecutable(fd, origin, inherited)
	if err == nil {
		e.id = id
	}
	return e, err
}

// giveTo gives h the binary.
func (e *executable) giveTo(h Holder) error {
	if e.fd < 0 {
		return errNotKept
	}
	fd, err := unix.FcntlInt(uintptr(e.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), e.origin)
	defer f.Close()
	return h.Put(BinaryPrefix+e.id, nil, f)
}

// path returns a name for exec.
func (e *executable) path() string { return e.file }

// name has an error of exec name the binary's path. Others keep theirs.
func (e *executable) name(err error) error {
	var failed *os.PathError
	if errors.As(err, &failed) && failed.Path == e.file {
		failed.Path = e.origin
	}
	return err
}

// close closes the binary, unless that was done. The master's end and a job of the spawner may
// do so at the same time.
func (e *executable) close() {
	e.closing.Lock()
	defer e.closing.Unlock()
	if e.fd >= 0 {
		unix.Close(e.fd)
		e.fd = -1
	}
}

// dieWithParent has the kernel send SIGTERM when the spawner's thread ends, which is
// when the master ends. The lifeline does the same; this also works if the worker
// does not watch it.
func dieWithParent(a *syscall.SysProcAttr) {
	if a.Pdeathsig == 0 {
		a.Pdeathsig = syscall.SIGTERM
	}
}

// dropPrivileges takes from the calling thread, and from what it starts, the possibility
// to gain privileges by executing a file.
func dropPrivileges() error {
	return os.NewSyscallError("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// pinThread binds the calling thread, and what it starts, to cpus until restore is
// called. The caller must have locked itself to the thread.
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
