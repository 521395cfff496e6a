package prefork

import (
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// hasSlotSockets reports whether the kernel balances connections over sockets that
// share a port, so that each worker can have its own socket.
const hasSlotSockets = true

// isQueueEmpty reports whether no connection waits in ln to be accepted.
func isQueueEmpty(ln net.Listener) bool {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	isEmpty := true
	_ = raw.Control(func(fd uintptr) {
		// poll works for every kind of socket; TCP_INFO works only for TCP.
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 0)
		isEmpty = err != nil || n == 0
	})
	return isEmpty
}

// openSockets counts this process's connections that came through listeners with
// these addresses, also those that the server does not own. The second result tells
// whether the number is known.
func openSockets(addrs []net.Addr) (int, bool) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, false
	}
	count := 0
	for _, name := range names {
		fd, _ := strconv.Atoi(name.Name())
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
			continue
		}
		if _, err := unix.Getpeername(fd); err != nil {
			continue // a listener, or a connection that has ended
		}
		local, err := unix.Getsockname(fd)
		if err == nil && isOneOf(local, addrs) {
			count++
		}
	}
	return count, true
}

// isOneOf reports whether a connection's local address belongs to a listener. For TCP
// it compares only the port, because the listener's address may be a wildcard.
func isOneOf(local unix.Sockaddr, addrs []net.Addr) bool {
	for _, addr := range addrs {
		switch a := addr.(type) {
		case *net.TCPAddr:
			switch l := local.(type) {
			case *unix.SockaddrInet4:
				if l.Port == a.Port {
					return true
				}
			case *unix.SockaddrInet6:
				if l.Port == a.Port {
					return true
				}
			}
		case *net.UnixAddr:
			if l, ok := local.(*unix.SockaddrUnix); ok && l.Name == a.Name {
				return true
			}
		}
	}
	return false
}
