//go:build !((linux && !mips && !mipsle && !(arm && !arm.7)) || darwin || dragonfly || freebsd || netbsd || openbsd)

package shared

import (
	"errors"
	"os"
)

// canShare is false where several processes cannot map the same memory, and where Go
// implements 64-bit atomic operations with a lock inside each process (32-bit MIPS,
// ARM before version 7).
const canShare = false

func createFile(int64) (*os.File, error) { return nil, errors.ErrUnsupported }

func mapFile(uintptr) ([]word, error) { return nil, errors.ErrUnsupported }

func unmap([]word) {}

func ownWords(n int) []word { return heapWords(n) }

func findInherited() int { return -1 }

func systemClock() (nanoseconds int64, known bool) { return 0, false }
