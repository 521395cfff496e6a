//go:build !unix

package enginetest

const canDuplicate = false

// duplicate is for systems that have descriptors.
func duplicate(int) int { return -1 }
