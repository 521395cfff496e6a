//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package shared

import "os"

// createFile returns an unlinked temporary file of size bytes. The file is not
// sealed: no process that has the descriptor may shrink it.
func createFile(size int64) (*os.File, error) { return createTemporary(size) }

// systemClock: unknown. The wall clock at the time of the attach is used instead.
func systemClock() (nanoseconds int64, known bool) { return 0, false }
