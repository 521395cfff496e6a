//go:build linux && !race && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"net"
	"os"
	"syscall"
	"unsafe"
)

// RawSyscall does not tell the scheduler that a call is going on, which saves
// 50 to 100 ns. It is for calls that cannot sleep: the sockets are non-blocking.

// receiver is the memory that recvmsg works on.
type receiver struct {
	header  syscall.Msghdr
	vector  syscall.Iovec
	control [3]uint64 // one control message with an int in it
}

// recvQueue reads into p, and has the kernel tell whether that drained the
// socket.
func (c *conn) recvQueue(p []byte) (int, syscall.Errno) {
	r := &c.raw
	if !r.isTCP {
		n, errno := recvPlain(r.fd, p)
		r.drained = errno == syscall.EAGAIN
		return n, errno
	}
	m := r.receiver
	m.vector.Base = &p[0]
	m.vector.SetLen(len(p))
	m.header.Iov, m.header.Iovlen = &m.vector, 1
	m.header.Control = (*byte)(unsafe.Pointer(&m.control))
	for {
		m.header.SetControllen(len(m.control) * 8)
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(r.fd), uintptr(unsafe.Pointer(&m.header)), 0)
		if errno == syscall.EINTR {
			continue
		}
		m.vector.Base = nil
		if errno != 0 {
			r.drained = errno == syscall.EAGAIN
			return 0, errno
		}
		r.drained = m.queue() == 0
		return int(n), 0
	}
}

// queue returns the length of the receive queue that the last recvmsg left, or
// -1 where the kernel did not say.
func (m *receiver) queue() int32 {
	message := (*syscall.Cmsghdr)(unsafe.Pointer(&m.control))
	if m.header.Controllen < syscall.SizeofCmsghdr+4 ||
		message.Level != syscall.IPPROTO_TCP || message.Type != messageQueue {
		return -1
	}
	return *(*int32)(unsafe.Pointer(&m.control[syscall.SizeofCmsghdr/8]))
}

// recvPlain reads from a socket.
func recvPlain(fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), 0, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// send writes p, which is not empty, to a socket.
func send(fd int, p []byte) (int, syscall.Errno) {
	for {
		var n uintptr
		var errno syscall.Errno
		if len(p) < longCall {
			n, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd),
				uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		} else {
			n, _, errno = syscall.Syscall6(syscall.SYS_SENDTO, uintptr(fd),
				uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		}
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// writeBuffersRaw implements WriteBuffers.
func (c *conn) writeBuffersRaw(v *net.Buffers) (int64, error) {
	var vectors [flushVector]syscall.Iovec
	var written int64
	for {
		count := fillVectors(vectors[:], *v)
		if count == 0 {
			consume(v, 0)
			return written, nil
		}
		var header syscall.Msghdr
		header.Iov, header.Iovlen = &vectors[0], uint64(count)
		n, _, errno := syscall.Syscall(syscall.SYS_SENDMSG, uintptr(c.raw.fd), uintptr(unsafe.Pointer(&header)), gatheredFlags)
		switch errno {
		case 0:
			written += int64(n)
			consume(v, int(n))
		case syscall.EINTR:
		case syscall.EAGAIN:
			consume(v, 0) // empty buffers at the front
			m, err := c.writeBlocked((*v)[0], 0)
			written += int64(m)
			consume(v, m)
			if err != nil {
				return written, err
			}
		default:
			return written, os.NewSyscallError("sendmsg", errno)
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

// consume takes n bytes off v, and the empty buffers behind them.
func consume(v *net.Buffers, n int) {
	for len(*v) > 0 {
		if first := (*v)[0]; n < len(first) {
			(*v)[0] = first[n:]
			return
		}
		n -= len((*v)[0])
		(*v)[0], *v = nil, (*v)[1:]
	}
}
