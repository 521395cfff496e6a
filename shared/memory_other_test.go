//go:build !linux

package shared

const canSeal = false
