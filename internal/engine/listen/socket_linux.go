package listen

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const canReusePort = true

const (
	// fastOpenQueue bounds the fast-open connections with incomplete handshakes.
	// Further clients use a full handshake.
	fastOpenQueue = 16 << 10
	// deferSeconds is how long the kernel waits for the first byte before it passes
	// the connection on without it.
	deferSeconds = 1
)

// setBeforeBind sets options on a socket that is not bound yet.
func setBeforeBind(fd uintptr, o Options) error {
	if o.ReusePort {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return reusePortError(err)
		}
	}
	if o.DeferAccept {
		if err := optional(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds)); err != nil {
			return fmt.Errorf("sluice: TCP_DEFER_ACCEPT: %w", err)
		}
	}
	if o.FastOpen {
		if err := optional(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_FASTOPEN, fastOpenQueue)); err != nil {
			return fmt.Errorf("sluice: TCP_FASTOPEN: %w", err)
		}
	}
	return nil
}

// setAfterListen sets the backlog: package net listens with somaxconn, and a second
// listen(2) changes it.
func setAfterListen(fd uintptr, o Options) error {
	if o.Backlog <= 0 {
		return nil
	}
	if err := unix.Listen(int(fd), o.Backlog); err != nil {
		return fmt.Errorf("sluice: listen with backlog %d: %w", o.Backlog, err)
	}
	return nil
}

func setIncomingCPU(fd uintptr, cpu int) error {
	if err := optional(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_INCOMING_CPU, cpu)); err != nil {
		return fmt.Errorf("sluice: SO_INCOMING_CPU: %w", err)
	}
	return nil
}

// isMultipath asks for the protocol of the socket itself. A connection that falls back
// to TCP does not change that of its listener.
func isMultipath(fd uintptr) bool {
	protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_MPTCP
}

// optional hides the errors of kernels without an option.
func optional(err error) error {
	if errors.Is(err, unix.ENOPROTOOPT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// reusePortError returns ErrReusePortUnsupported for kernels without the option
// (Linux before 3.9), and other errors unchanged.
func reusePortError(err error) error {
	if errors.Is(err, unix.ENOPROTOOPT) {
		return fmt.Errorf("%w: %w", ErrReusePortUnsupported, err)
	}
	return fmt.Errorf("sluice: SO_REUSEPORT: %w", err)
}
