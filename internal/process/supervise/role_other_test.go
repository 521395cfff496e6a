//go:build !linux

package supervise

func playRole(role string) int { return unknownRole(role) }
