//go:build unix

package supervise

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hold takes f over and returns it in the form in which the master keeps
// sockets for ever: non-blocking, unknown to this process's poller, and in a
// File whose Fd leaves the flags alone.
//
// Both matter. Files that package net returns are registered with the poller,
// so the master would wake for every connection that comes to a worker. And
// their Fd, which os/exec calls at each start, makes the socket blocking; the
// flag belongs to the socket and not to the descriptor, so a sibling that
// serves it would hang in accept.
func hold(f *os.File) (*os.File, error) {
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("sluice: socket of a slot: %w", err)
	}
	fd := -1
	var inner error
	if err := raw.Control(func(old uintptr) { fd, inner = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		inner = err
	}
	if inner != nil {
		return nil, fmt.Errorf("sluice: socket of a slot: %w", inner)
	}
	return holdDescriptor(fd, f.Name())
}

// holdDescriptor is hold for a bare descriptor.
func holdDescriptor(fd int, name string) (*os.File, error) {
	// os.NewFile registers what is not blocking.
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.SetNonblock(fd, true); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// newLifeline returns a pipe through which nothing is ever sent. The write end
// stays in the master, so the kernel closes it when the master dies, however
// that comes, and every reader sees the end.
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

// inherited returns a File, known to the poller, for a descriptor that this
// process was started with, and keeps it from processes that it starts.
func inherited(fd int, name string) *os.File {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), name)
}

// isListener tells whether fd is a listening socket.
func isListener(fd int) bool {
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && listens != 0
}

// isPipe tells whether fd is a pipe.
func isPipe(fd int) bool {
	var stat unix.Stat_t
	return unix.Fstat(fd, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFIFO
}
