//go:build !unix

package sluice_test

const canDuplicate = false

// duplicate is for systems that have descriptors.
func duplicate(int) int { return -1 }
