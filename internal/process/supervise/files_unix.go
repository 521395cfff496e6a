//go:build unix

package supervise

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hold takes ownership of f and returns the socket in the form in which the master
// keeps it: non-blocking, unknown to this process's poller, and in a File whose Fd
// method leaves the flags alone.
//
// Files that package net returns are registered with the poller, so the master would
// wake for every connection that arrives for a worker. Their Fd method, which os/exec
// calls at each start, makes the socket blocking. That flag belongs to the socket and
// not to the descriptor, so a worker of another slot that serves the socket would
// hang in accept.
func hold(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sluice: socket of a slot: %w", err)
	}
	return holdDescriptor(fd, f.Name()), nil
}

// holdDescriptor is hold for a bare descriptor, which is open, so that its flags can be
// set.
func holdDescriptor(fd int, name string) *os.File {
	unix.SetNonblock(fd, false) // os.NewFile registers non-blocking descriptors with the poller
	f := os.NewFile(uintptr(fd), name)
	unix.SetNonblock(fd, true)
	return f
}

// newLifeline returns a pipe through which nothing is ever sent. The master keeps the
// write end, so the kernel closes it when the master dies for any reason, and every
// reader sees the end of the file.
func newLifeline() (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if read, err = hold(read); err != nil {
		write.Close()
		return nil, nil, err
	}
	return read, write, nil
}

// inherited returns a File that the poller knows, for a descriptor that this process
// inherited. Processes that this one starts do not inherit it.
func inherited(fd int, name string) *os.File {
	unix.CloseOnExec(fd)
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// isListener reports whether fd is a listening socket.
func isListener(fd int) bool {
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && listens != 0
}

// isPipe reports whether fd is a pipe.
func isPipe(fd int) bool {
	var stat unix.Stat_t
	return unix.Fstat(fd, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFIFO
}
