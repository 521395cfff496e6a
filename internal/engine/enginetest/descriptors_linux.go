package enginetest

import (
	"sync"
	"syscall"
	"testing"
)

// leaveOneDescriptor has the process run out of descriptors after one more,
// until restore is called. It may be called more than once.
func leaveOneDescriptor(t *testing.T) (restore func(), ok bool) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		return nil, false
	}
	// A new descriptor is the lowest that is free: all below it are taken.
	next, err := syscall.Dup(0)
	if err != nil {
		return nil, false
	}
	_ = syscall.Close(next)
	limit := was
	limit.Cur = uint64(next) + 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, false
	}
	return sync.OnceFunc(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) }), true
}
