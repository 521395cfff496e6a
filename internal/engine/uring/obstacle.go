//go:build linux && (amd64 || arm64)

package uring

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// obstacle makes two sends, of which one fails. A kernel may know io_uring without all that a
// Ring needs of it: failures alone are told of (5.17), all of them before io_uring_enter
// returns.
func obstacle() error {
	r, err := Open(2)
	if err != nil {
		return err
	}
	defer r.Close()
	open, peer, err := socketPair()
	if err != nil {
		return err
	}
	defer syscall.Close(open)
	defer syscall.Close(peer)
	broken, gone, err := socketPair()
	if err != nil {
		return err
	}
	defer syscall.Close(broken)
	_ = syscall.Close(gone)
	const probe = "probe"
	text := unsafe.Slice(unsafe.StringData(probe), len(probe)) // a constant is not on the stack
	const works, fails = 1, 2                                  // tokens
	r.Add(open, text, works)
	r.Add(broken, text, fails)
	failed, ok := r.Submit()
	got := make([]byte, len(text)+1)
	n, err := syscall.Read(peer, got)
	switch {
	case !ok:
		return errors.New("sluice: io_uring_enter does not take sends")
	case err != nil || string(got[:n]) != string(text):
		return errors.New("sluice: io_uring does not send")
	case len(failed) != 1 || failed[0] != Failure{Token: fails, Errno: syscall.EPIPE}:
		return fmt.Errorf("sluice: io_uring tells %v of a send to a closed socket", failed)
	}
	return nil
}

// socketPair returns two connected sockets.
func socketPair() (a, b int, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	return fds[0], fds[1], os.NewSyscallError("socketpair", err)
}
