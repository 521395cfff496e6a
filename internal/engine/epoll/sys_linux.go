//go:build linux && (amd64 || arm64)

package epoll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RawSyscall does not tell the scheduler that a call is going on, which saves 50
// to 100 ns. It is for calls that wait for nothing, whatever the socket's flags
// are: the thread would keep its P meanwhile, and with it the whole of a process
// that has one. acceptFD relies on the listener being non-blocking.

// epollWait takes the events that are there and returns their number.
func epollWait(epoll int, events []syscall.EpollEvent) int {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		if errno == 0 {
			return int(n)
		}
		if errno != syscall.EINTR {
			return 0
		}
	}
}

func epollControl(epoll, operation, fd int, event *syscall.EpollEvent) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(epoll), uintptr(operation),
		uintptr(fd), uintptr(unsafe.Pointer(event)), 0, 0)
	return errno
}

// rawAddress is a socket address as the kernel writes it.
type rawAddress struct {
	any    syscall.RawSockaddrAny
	length uint32
}

func (a *rawAddress) family() uint16 {
	if a.length < 2 {
		return syscall.AF_UNSPEC
	}
	return a.any.Addr.Family
}

func (a *rawAddress) inet4() *syscall.RawSockaddrInet4 {
	return (*syscall.RawSockaddrInet4)(unsafe.Pointer(&a.any))
}

func (a *rawAddress) inet6() *syscall.RawSockaddrInet6 {
	return (*syscall.RawSockaddrInet6)(unsafe.Pointer(&a.any))
}

func (a *rawAddress) unix() *syscall.RawSockaddrUnix {
	return (*syscall.RawSockaddrUnix)(unsafe.Pointer(&a.any))
}

// acceptFD accepts a connection as a non-blocking descriptor that child
// processes do not inherit.
func acceptFD(listener int, peer *rawAddress) (int, syscall.Errno) {
	for {
		peer.length = syscall.SizeofSockaddrAny
		fd, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&peer.any)),
			uintptr(unsafe.Pointer(&peer.length)), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		if errno != syscall.EINTR {
			return int(fd), errno
		}
	}
}

func getPeerName(fd int, a *rawAddress) syscall.Errno {
	a.length = syscall.SizeofSockaddrAny
	_, _, errno := syscall.RawSyscall(syscall.SYS_GETPEERNAME, uintptr(fd),
		uintptr(unsafe.Pointer(&a.any)), uintptr(unsafe.Pointer(&a.length)))
	return errno
}

func getSockName(fd int, a *rawAddress) syscall.Errno {
	a.length = syscall.SizeofSockaddrAny
	_, _, errno := syscall.RawSyscall(syscall.SYS_GETSOCKNAME, uintptr(fd),
		uintptr(unsafe.Pointer(&a.any)), uintptr(unsafe.Pointer(&a.length)))
	return errno
}

// duplicate returns another descriptor of fd's open file, or -1.
func duplicate(fd int) int {
	other, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1
	}
	return int(other)
}

// closeFD closes a descriptor whose closing does not wait: a TCP socket's
// without SO_LINGER. Others take syscall.Close.
func closeFD(fd int) { syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

// lingers tells whether closing a TCP socket may wait until its peer has taken
// everything (socket(7), SO_LINGER). So may connections that it accepts, which
// inherit the option.
func lingers(fd int) bool {
	l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER)
	return err != nil || l.Onoff != 0 && l.Linger > 0
}

// isEmpty tells whether a read of the socket would have to wait.
func isEmpty(fd int) bool {
	var b [1]byte
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1,
			syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == syscall.EAGAIN
		}
	}
}
