//go:build unix

package enginetest

import "syscall"

const canDuplicate = true

// duplicate returns another descriptor of fd's open file.
func duplicate(fd int) int {
	other, err := syscall.Dup(fd)
	if err != nil {
		return -1
	}
	syscall.CloseOnExec(other)
	return other
}
