//go:build unix

package prefork

import (
	"os"
	"syscall"
	"time"
)

// usage reads the resources that the process uses.
type usage struct {
	statm *os.File // of /proc, which Linux has; nil: not known
	buf   [64]byte
	times syscall.Rusage
}

func (u *usage) open() { u.statm, _ = os.Open("/proc/self/statm") }

func (u *usage) close() {
	if u.statm != nil {
		u.statm.Close()
	}
}

// resident returns the resident memory in bytes. statm has it as its second
// number, in pages.
func (u *usage) resident() uint64 {
	if u.statm == nil {
		return 0
	}
	n, _ := u.statm.ReadAt(u.buf[:], 0) // it ends with io.EOF, or goes on with what is not wanted
	pages, number := uint64(0), 0
	for _, b := range u.buf[:n] {
		switch {
		case b >= '0' && b <= '9' && number == 1:
			pages = pages*10 + uint64(b-'0')
		case b == ' ':
			number++
		}
	}
	return pages * uint64(os.Getpagesize())
}

// cpu is the processor time used.
func (u *usage) cpu() time.Duration {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u.times) // cannot fail
	return time.Duration(u.times.Utime.Nano() + u.times.Stime.Nano())
}
