//go:build !linux

package prefork

import "net"

// hasSlotSockets is false because SO_REUSEPORT of these systems does not balance
// connections, or was not tested.
const hasSlotSockets = false

// isQueueEmpty always returns true, because the queue cannot be read here.
func isQueueEmpty(net.Listener) bool { return true }

// openSockets always returns false: the number is unknown here.
func openSockets([]net.Addr) (count int, isKnown bool) { return 0, false }
