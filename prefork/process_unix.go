//go:build unix

package prefork

import "syscall"

// processExists tells whether there is a process of that number, a zombie
// included.
func processExists(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
