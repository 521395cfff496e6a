package nettest

import (
	"os"
	"runtime/debug"
	"syscall"
	"testing"
)

// WithFree calls do while this process can open only free more descriptors, all with
// numbers below limit. The test fails if do leaves one open.
func WithFree(t testing.TB, limit uint64, free int, do func()) {
	t.Helper()
	r, w, err := os.Pipe() // the poller needs a descriptor of its own
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	// A garbage collection would close what leaks.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := openDescriptors(t)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	var filling []int
	for {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		filling = append(filling, fd)
	}
	if len(filling) >= free {
		keep := len(filling) - free
		closeDescriptors(filling[keep:])
		do()
		closeDescriptors(filling[:keep])
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if len(filling) < free {
		t.Skip("too many descriptors are open")
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are free: %d are open, %d before", free, after, before)
	}
}

// openDescriptors counts the descriptors of this process.
func openDescriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// closeDescriptors closes descriptors.
func closeDescriptors(all []int) {
	for _, fd := range all {
		syscall.Close(fd)
	}
}
