package prefork

import (
	"os"

	"golang.org/x/sys/unix"
)

// roomFor returns shared.Room of a process with so many open connections: a part of the free
// descriptors is for what handlers open.
func roomFor(connections uint64) uint64 {
	var limit unix.Rlimit
	open, err := openDescriptors()
	if err != nil || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	used := open + min(limit.Cur/8, 64)
	return 1 + connections + limit.Cur - min(used, limit.Cur)
}

// openDescriptors returns how many descriptors this process has.
func openDescriptors() (uint64, error) {
	const folder = "/proc/self/fd"
	if info, err := os.Stat(folder); err == nil && info.Size() > 0 { // since Linux 6.2
		return uint64(info.Size()), nil
	}
	all, err := os.ReadDir(folder)
	return uint64(len(all)), err
}

// duplicateSocket returns another descriptor of a socket.
func duplicateSocket(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

func closeSocket(fd int) { unix.Close(fd) }
