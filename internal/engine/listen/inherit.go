package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// errNoDescriptor is returned for listeners without a socket.
var errNoDescriptor = errors.New("sluice: listener has no file descriptor")

// File returns a duplicate of ln's descriptor, to pass to a child process (os/exec's
// ExtraFiles) or over a unix socket. The caller closes it; ln stays open and is
// independent of it. Listeners that wrap another one or live in memory have no
// descriptor: that is an error.
func File(ln net.Listener) (*os.File, error) {
	owner, ok := ln.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("%w: %T", errNoDescriptor, ln)
	}
	return owner.File()
}

// FromFile returns a listener on the inherited descriptor of f. It always closes f.
// The socket keeps its queue of waiting connections and its options.
func FromFile(f *os.File) (net.Listener, error) {
	ln, err := net.FileListener(f)
	closeErr := f.Close()
	if err != nil {
		return nil, fmt.Errorf("sluice: inherited descriptor is no listener: %w", err)
	}
	if closeErr != nil {
		ln.Close()
		return nil, closeErr
	}
	return ln, nil
}

// FromDescriptor is FromFile for a descriptor number: in a child process, 3 is the
// first of ExtraFiles.
func FromDescriptor(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "listener")
	if f == nil {
		return nil, fmt.Errorf("%w: %d", errNoDescriptor, fd)
	}
	return FromFile(f)
}
