//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package listen

// canReusePort: Windows has no SO_REUSEPORT, and its SO_REUSEADDR lets another
// user's process take the port over, so that it is never used instead.
const canReusePort = false

// setBeforeBind sets nothing: the other options are hints that these systems
// do not know.
func setBeforeBind(uintptr, Options) error { return nil }

// setAfterListen sets nothing: the backlog stays the system's maximum.
func setAfterListen(uintptr, Options) error { return nil }
