//go:build linux && !race && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"syscall"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

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
		n, errno := sock.Recv(r.fd, p)
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
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(r.fd), uintptr(unsafe.Pointer(&m.header)), syscall.MSG_DONTWAIT)
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
