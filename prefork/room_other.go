//go:build !linux

package prefork

import "errors"

// roomFor returns 0: it is not known.
func roomFor(uint64) uint64 { return 0 }

// duplicateSocket fails: there are no inboxes.
func duplicateSocket(int) (int, error) { return -1, errors.ErrUnsupported }

func closeSocket(int) {}
