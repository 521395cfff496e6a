package enginetest

import (
	"net"
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

// serverNoDelay finds the server's socket among the process's descriptors, by
// the address of its peer, and reports whether TCP_NODELAY is on.
func serverNoDelay(peer net.Addr) (on, found bool) {
	address, ok := peer.(*net.TCPAddr)
	if !ok {
		return false, false
	}
	for fd := range 1 << 12 {
		name, err := syscall.Getpeername(fd)
		if err != nil {
			continue
		}
		if four, ok := name.(*syscall.SockaddrInet4); ok && four.Port == address.Port && net.IP(four.Addr[:]).Equal(address.IP) {
			value, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
			return value != 0, err == nil
		}
	}
	return false, false
}
