//go:build linux && !race && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"net"
	"syscall"
	"unsafe"
)

// RawSyscall does not tell the scheduler that a call is going on, which saves
// 50 to 100 ns. It is for calls that cannot sleep. MSG_DONTWAIT says so in each:
// the socket's own flag is shared with its duplicates, and os.File.Fd on one of
// them makes the socket blocking.

// longestSend is the most that one call writes. The thread keeps its P while it
// copies, for tens of microseconds. A scheduler that knew of the call would take the
// P away after 20 µs, and the thread would have to wait for another one: 0.1 to 0.3
// context switches for each response of 100 KiB.
const longestSend = 256 << 10

// Recv reads into p, which is not empty. 0 bytes and no error are a FIN.
func (*Calls) Recv(fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// Send writes as much of p, which is not empty, as goes without waiting, 256 KiB at
// most. If more is set, more follows at once, which may share a packet with p.
func (*Calls) Send(fd int, p []byte, more bool) (int, syscall.Errno) {
	const messageMore = 0x8000 // MSG_MORE
	flags := uintptr(syscall.MSG_NOSIGNAL | syscall.MSG_DONTWAIT)
	if more {
		flags |= messageMore
	}
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(&p[0])), uintptr(min(len(p), longestSend)), flags, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// SendBuffers writes as much of v as goes with one gathering write and without
// waiting, 64 buffers and 256 KiB at most. What was written is taken off v, and so are empty
// buffers in front of what is left: v is empty in the end if all was written,
// and v[0] is not empty if EAGAIN is returned.
func SendBuffers(fd int, v *net.Buffers) (int64, syscall.Errno) {
	var vectors [maxVectors]syscall.Iovec
	count := fillVectors(vectors[:], *v)
	if count == 0 {
		consume(v, 0)
		return 0, 0
	}
	var header syscall.Msghdr
	header.Iov, header.Iovlen = &vectors[0], uint64(count)
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_SENDMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&header)), syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
		switch errno {
		case 0:
			consume(v, int(n))
			return int64(n), 0
		case syscall.EINTR:
		default:
			consume(v, 0)
			return 0, errno
		}
	}
}

// fillVectors describes the buffers in v, as many as fit, and at most longestSend
// bytes.
func fillVectors(vectors []syscall.Iovec, v net.Buffers) int {
	count := 0
	for left := longestSend; len(v) > 0 && count < len(vectors) && left > 0; v = v[1:] {
		if p := v[0]; len(p) > 0 {
			vectors[count].Base = &p[0]
			vectors[count].SetLen(min(len(p), left))
			left -= len(p)
			count++
		}
	}
	return count
}
