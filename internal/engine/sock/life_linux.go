//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"syscall"
	"unsafe"
)

// Accept accepts a connection as a non-blocking descriptor that child processes
// do not inherit, and writes its peer's address to peer. It does not tell the
// scheduler of the call, so listener must be non-blocking.
func Accept(listener int, peer *Address) (int, syscall.Errno) {
	for {
		peer.length = syscall.SizeofSockaddrAny
		fd, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&peer.any)),
			uintptr(unsafe.Pointer(&peer.length)), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		if errno != syscall.EINTR {
			return int(fd), errno
		}
	}
}

// Backlog returns how many connections of a listening TCP socket wait for Accept, and 0 if the
// system does not tell; -1 if fd is no such socket. It costs a seventh of an Accept that finds
// none, for which the kernel makes a socket.
func Backlog(fd int) int {
	const listens = 10 // TCP_LISTEN
	var info struct {  // the beginning of struct tcp_info
		state   uint8
		_       [23]byte
		waiting uint32 // tcpi_unacked
	}
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 || info.state != listens {
		return -1
	}
	return int(info.waiting)
}

// KeepNonblocking makes fd non-blocking, unless it is. That flag belongs to the socket, so
// the owner of a duplicate of fd may clear it, as os.File.Fd does.
func KeepNonblocking(fd int) {
	flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	if errno == 0 && flags&syscall.O_NONBLOCK == 0 {
		syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFL, flags|syscall.O_NONBLOCK)
	}
}

// Duplicate returns another descriptor of fd's open file, or -1.
func Duplicate(fd int) int {
	other, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1
	}
	return int(other)
}

// ClosePromptly closes a descriptor whose closing does not wait: a TCP socket's
// without SO_LINGER. Others take syscall.Close.
func ClosePromptly(fd int) { syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

// CloseWrite sends the rest of the output, and a FIN.
func CloseWrite(fd int) syscall.Errno {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SHUTDOWN, uintptr(fd), syscall.SHUT_WR, 0)
	return errno
}

// Lingers reports whether closing a TCP socket may wait until its peer has taken
// everything, or discards what is not sent (socket(7), SO_LINGER). The same holds for
// connections that it accepts, which inherit the option. True also if the socket
// cannot be asked.
func Lingers(fd int) bool {
	var l syscall.Linger
	size := uint32(unsafe.Sizeof(l))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.SOL_SOCKET, syscall.SO_LINGER,
		uintptr(unsafe.Pointer(&l)), uintptr(unsafe.Pointer(&size)), 0)
	return errno != 0 || l.Onoff != 0
}

// Peek is Recv, but the bytes stay in the socket.
func Peek(fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// IsQuiet reports whether a socket is open and has no unread bytes.
func IsQuiet(fd int) bool {
	var one [1]byte
	_, errno := Peek(fd, one[:])
	return errno == syscall.EAGAIN
}

// A Look is a socket of LookAt: struct pollfd of poll(2).
type Look struct {
	FD            int32 // negative: none
	wanted, found int16
}

// LookAt looks at up to 64 sockets, for IsQuiet, in one system call: beside 16 others, a socket
// takes a third of the time of a call of its own (BenchmarkLookAt).
func LookAt(sockets []Look) {
	const readable = 1 // POLLIN: unread bytes, or the end of the input
	for i := range sockets {
		sockets[i].wanted = readable
	}
	var noTime syscall.Timespec
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(sockets))), uintptr(len(sockets)),
			uintptr(unsafe.Pointer(&noTime)), 0, 0, 0)
		if errno == 0 {
			return
		}
		if errno != syscall.EINTR {
			break
		}
	}
	for i := range sockets { // the process may have fewer descriptors, or no memory
		if s := &sockets[i]; s.FD < 0 || IsQuiet(int(s.FD)) {
			s.found = 0
		} else {
			s.found = readable
		}
	}
}

// IsQuiet reports whether LookAt has found the socket open and without unread bytes.
func (l *Look) IsQuiet() bool { return l.found == 0 }
