//go:build !linux

package prefork

import "net"

// hasSlotSockets: these systems' SO_REUSEPORT does not balance, or not in a way
// that was tried.
const hasSlotSockets = false

// isQueueEmpty cannot tell and says that nothing waits.
func isQueueEmpty(net.Listener) bool { return true }

// openSockets does not know.
func openSockets([]net.Addr) (count int, isKnown bool) { return 0, false }
