//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package listen

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const canReusePort = true

// setBeforeBind sets options on a socket that is not bound yet.
func setBeforeBind(fd uintptr, o Options) error {
	if !o.ReusePort {
		return nil
	}
	if err := setReusePort(int(fd)); err != nil {
		if errors.Is(err, unix.ENOPROTOOPT) {
			return fmt.Errorf("%w: %w", ErrReusePortUnsupported, err)
		}
		return fmt.Errorf("sluice: SO_REUSEPORT: %w", err)
	}
	return nil
}

// setAfterListen sets the backlog, by a second listen(2) because package net used
// somaxconn, and the options that need a listening socket.
func setAfterListen(fd uintptr, o Options) error {
	if o.Backlog > 0 {
		if err := unix.Listen(int(fd), o.Backlog); err != nil {
			return fmt.Errorf("sluice: listen with backlog %d: %w", o.Backlog, err)
		}
	}
	if o.DeferAccept {
		setDeferAccept(int(fd))
	}
	if o.FastOpen {
		setFastOpen(int(fd))
	}
	return nil
}

// setIncomingCPU does nothing: these systems have no such option.
func setIncomingCPU(uintptr, int) error { return nil }

// isMultipath: Go has no listeners for Multipath TCP on these systems.
func isMultipath(uintptr) bool { return false }
