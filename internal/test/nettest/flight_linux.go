package nettest

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// WithFlight calls do on a thread from which the system refuses to send descriptors, because limit of
// the user's are in flight: sent through unix sockets, and not received. release closes these. do must
// not end its goroutine.
func WithFlight(t testing.TB, limit uint64, do func(release func())) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		if os.Geteuid() == 0 { // of this thread only: another effective user has no privileges
			const guest, same = 65534, ^uintptr(0)
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, guest, same); errno != 0 {
				t.Error(errno)
				return
			}
		}
		withFlight(t, limit, do)
	}()
	<-over
}

// withFlight is WithFlight on a thread without privileges.
func withFlight(t testing.TB, limit uint64, do func(release func())) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Error(err)
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: old.Max}); err != nil {
		t.Error(err)
		return
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return
	}
	release := sync.OnceFunc(func() { closeDescriptors(pair[:]) })
	defer release()
	rights := syscall.UnixRights(pair[0])
	for sent := uint64(0); ; sent++ {
		err := syscall.Sendmsg(pair[0], []byte{0}, rights, nil, syscall.MSG_DONTWAIT)
		if err == syscall.ETOOMANYREFS {
			break
		}
		if err != nil || sent > limit {
			t.Errorf("%d descriptors are in flight: %v", sent, err)
			return
		}
	}
	do(release)
}
