//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package shared

import "os"

// createFile returns an unlinked temporary file of size bytes. Nothing seals it:
// whoever has the descriptor must not shrink it.
func createFile(size int64) (*os.File, error) { return createTemporary(size) }

// systemClock is not known; the clock of the day, as it is when a process
// attaches, stands in for it.
func systemClock() (nanoseconds int64, known bool) { return 0, false }
