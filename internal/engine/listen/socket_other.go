//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package listen

// canReusePort: Windows has no SO_REUSEPORT. Its SO_REUSEADDR is no replacement,
// because it lets another user's process take over the port.
const canReusePort = false

// setBeforeBind does nothing: the other options are hints that these systems do not
// have.
func setBeforeBind(uintptr, Options) error { return nil }

// setAfterListen does nothing: the backlog is the system's maximum.
func setAfterListen(uintptr, Options) error { return nil }

// setIncomingCPU does nothing: these systems have no such option.
func setIncomingCPU(uintptr, int) error { return nil }

// isMultipath: Go has no listeners for Multipath TCP on these systems.
func isMultipath(uintptr) bool { return false }
