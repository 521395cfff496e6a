//go:build !linux

package prefork

// roomFor returns 0: it is not known.
func roomFor() uint64 { return 0 }
