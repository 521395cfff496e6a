package process

import "syscall"

// endsWithParent has a program get SIGTERM when this process dies.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
