//go:build !unix

package harness

// Duplicate is for systems that have descriptors.
func Duplicate(int) int { return -1 }
