package fasthttputil

import (
	"fmt"
	"net"
	"os"
)

// ErrConnectionClosed is returned by a Write after either end of the connection
// was closed. It matches net.ErrClosed.
var ErrConnectionClosed = fmt.Errorf("sluice: in-memory connection: %w", net.ErrClosed)

// ErrInmemoryListenerClosed is returned by Accept, Dial, DialWithLocalAddr and
// Close of an InmemoryListener after its Close, and by calls that Close
// interrupts. It matches net.ErrClosed.
var ErrInmemoryListenerClosed = fmt.Errorf("sluice: in-memory listener: %w", net.ErrClosed)

// ErrTimeout is returned by a Read or Write whose deadline has passed. It is a
// net.Error whose Timeout is true, and matches os.ErrDeadlineExceeded.
var ErrTimeout = &timeoutError{}

type timeoutError struct{}

var _ net.Error = ErrTimeout

// Error describes the time-out.
func (*timeoutError) Error() string { return "sluice: in-memory connection: i/o timeout" }

// Timeout is always true.
func (*timeoutError) Timeout() bool { return true }

// Temporary is always true: a later deadline makes the connection usable again.
func (*timeoutError) Temporary() bool { return true }

// Is makes errors.Is(ErrTimeout, os.ErrDeadlineExceeded) true, as for the
// time-outs of package net.
func (*timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
