//go:build linux && (amd64 || arm64)

package uring

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"
)

// obstacle makes three sends, of which one fails and one ends early. A kernel may know io_uring
// without all that a Ring needs of it: failures alone are told of (5.17), all of them before
// io_uring_enter returns, and how much was sent before. That would be sent twice otherwise.
func obstacle() error { return obstacleTo((*Ring).Submit) }

func obstacleTo(submit func(*Ring) (failed []Failure, works bool)) error {
	const works, fails, isShort = 0, 1, 2 // tokens, and indices of pairs
	r, err := Open(4)
	if err != nil {
		return err
	}
	defer r.Close()
	var pairs [3][2]int
	for i := range pairs {
		a, b, err := socketPair()
		if err != nil {
			return err
		}
		defer syscall.Close(a)
		defer syscall.Close(b)
		pairs[i] = [2]int{a, b}
	}
	_ = syscall.Shutdown(pairs[fails][0], syscall.SHUT_WR)
	_ = syscall.SetsockoptInt(pairs[isShort][0], syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1) // the kernel's least
	const probe = "probe"
	text, long := unsafe.Slice(unsafe.StringData(probe), len(probe)), make([]byte, 128<<10) // neither is on the stack: the second is too large
	r.Add(pairs[works][0], text, works)
	r.Add(pairs[fails][0], text, fails)
	r.Add(pairs[isShort][0], long, isShort)
	told, ok := submit(r)
	if !ok {
		return errors.New("sluice: io_uring_enter does not take sends")
	}
	want := []Failure{{Token: fails, Errno: syscall.EPIPE}, {Token: isShort, N: arrived(pairs[isShort][1])}}
	switch {
	case arrived(pairs[works][1]) != len(text):
		return errors.New("sluice: io_uring does not send")
	case !slices.Equal(told, want):
		return fmt.Errorf("sluice: io_uring tells %v of a send to a closed socket and of one for which there is no room, not %v", told, want)
	}
	return nil
}

// arrived reads what is there, and returns its length.
func arrived(fd int) (all int) {
	p := make([]byte, 4<<10)
	for {
		n, err := syscall.Read(fd, p)
		if err != nil || n == 0 {
			return all
		}
		all += n
	}
}

// socketPair returns two connected sockets.
func socketPair() (a, b int, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	return fds[0], fds[1], os.NewSyscallError("socketpair", err)
}
