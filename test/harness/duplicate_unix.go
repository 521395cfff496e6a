//go:build unix

package harness

import "syscall"

// Duplicate returns another descriptor of fd's open file.
func Duplicate(fd int) int {
	other, err := syscall.Dup(fd)
	if err != nil {
		return -1
	}
	syscall.CloseOnExec(other)
	return other
}
