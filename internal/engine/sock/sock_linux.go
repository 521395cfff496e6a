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

// longCall is the length of writes that let the scheduler know: copying so much
// takes a while.
const longCall = 64 << 10

// Recv reads into p, which is not empty. 0 bytes and no error are a FIN.
func Recv(fd int, p []byte) (int, syscall.Errno) {
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

// Send writes as much of p, which is not empty, as goes without waiting.
func Send(fd int, p []byte) (int, syscall.Errno) {
	return send(fd, p, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
}

// SendMore is Send where more follows at once, which may share a packet with p.
func SendMore(fd int, p []byte) (int, syscall.Errno) {
	return send(fd, p, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT|messageMore)
}

const messageMore = 0x8000 // MSG_MORE

func send(fd int, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		var n uintptr
		var errno syscall.Errno
		if len(p) < longCall {
			n, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd),
				uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
		} else {
			n, _, errno = syscall.Syscall6(syscall.SYS_SENDTO, uintptr(fd),
				uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
		}
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// SendBuffers writes as much of v as goes with one gathering write and without
// waiting, 64 buffers at most. What was written is taken off v, and so are empty
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
		n, _, errno := syscall.Syscall(syscall.SYS_SENDMSG, uintptr(fd),
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

// fillVectors describes the buffers in v, as many as fit.
func fillVectors(vectors []syscall.Iovec, v net.Buffers) int {
	count := 0
	for _, p := range v {
		if len(p) == 0 {
			continue
		}
		if count == len(vectors) {
			break
		}
		vectors[count].Base = &p[0]
		vectors[count].SetLen(len(p))
		count++
	}
	return count
}
