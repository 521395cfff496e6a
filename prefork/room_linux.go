package prefork

import (
	"os"

	"golang.org/x/sys/unix"
)

// roomFor returns shared.Room: a part of the free descriptors is for what handlers open.
func roomFor() uint64 {
	var limit unix.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	used := uint64(len(open)) + min(limit.Cur/8, 64)
	if limit.Cur <= used {
		return 1
	}
	return 1 + limit.Cur - used
}
