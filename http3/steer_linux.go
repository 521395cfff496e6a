package http3

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// steer attaches the program of steering to the group of c's socket, in place of the one
// that it has. It needs no privilege. Packets that wait in a socket stay there.
func steer(c syscall.Conn, mark byte, ready, leaving []int) error {
	program, err := steering(mark, ready, leaving)
	if err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var attachErr error
	err = raw.Control(func(fd uintptr) {
		attachErr = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, filterOf(program))
	})
	if err == nil && attachErr != nil {
		err = fmt.Errorf("http3: the kernel does not take the program that selects the socket of a packet: %w",
			os.NewSyscallError("setsockopt", attachErr))
	}
	return err
}

// hasPackets reports whether packets wait in a socket.
func hasPackets(s socket) bool {
	c, ok := s.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	size := 0
	_ = raw.Control(func(fd uintptr) { size, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }) // fails if c is closed
	return err == nil && size > 0
}

// filterOf returns a program in the kernel's form.
func filterOf(program []bpf.RawInstruction) *unix.SockFprog {
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
}
