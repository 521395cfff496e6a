package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const isSupported = true

// sendTimeout bounds the wait for systemd to read.
const sendTimeout = time.Second

// checkPassed returns an error unless n descriptors were passed to this process. Those that
// it has opened itself, as Go's runtime does, are closed on exec; what is passed is not.
func checkPassed(n int) error {
	for fd := firstFD; fd < firstFD+n; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			return fmt.Errorf("sluice: LISTEN_FDS=%d, and descriptor %d was not passed to this process, or it is used already", n, fd)
		}
	}
	return nil
}

// openSocket returns the descriptor that systemd has passed.
func openSocket(fd int, name string) Socket {
	unix.CloseOnExec(fd)
	s := Socket{Name: name, File: os.NewFile(uintptr(fd), name)}
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
		return s
	}
	if ln, err := net.FileListener(s.File); err == nil {
		s.Addr = ln.Addr()
		if u, isUnix := ln.(*net.UnixListener); isUnix {
			u.SetUnlinkOnClose(false) // the path is systemd's
		}
		ln.Close() // a duplicate
	}
	return s
}

// IsShareable reports whether other sockets may be bound to the address of a socket
// (SO_REUSEPORT).
func (s Socket) IsShareable() (isShareable bool) {
	_ = control(s.File, func(fd int) { // an error: no
		value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT)
		isShareable = err == nil && value != 0
	})
	return isShareable
}

// control calls f with c's descriptor. File.Fd would make the socket block, which all
// who share it would notice.
func control(c syscall.Conn, f func(fd int)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// send sends a datagram, with a descriptor if file is not nil.
func (s *Service) send(text string, file syscall.Conn) error {
	if s.socket == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sluice: systemd: %w", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(sendTimeout))
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout)
	to := &unix.SockaddrUnix{Name: s.socket} // @ begins an abstract name
	switch {
	case err != nil:
	case file == nil:
		err = unix.Sendmsg(fd, []byte(text), nil, to, unix.MSG_NOSIGNAL)
	default:
		controlErr := control(file, func(passed int) {
			err = unix.Sendmsg(fd, []byte(text), unix.UnixRights(passed), to, unix.MSG_NOSIGNAL)
		})
		err = errors.Join(controlErr, err)
	}
	if err != nil {
		return fmt.Errorf("sluice: systemd: %s: %w", s.socket, err)
	}
	return nil
}

// monotonic returns CLOCK_MONOTONIC in microseconds, as systemd compares it.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() / int64(time.Microsecond)
}
