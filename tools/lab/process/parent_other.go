//go:build !linux

package process

import "syscall"

// endsWithParent does nothing: measuring needs Linux, building does not.
func endsWithParent() *syscall.SysProcAttr { return nil }
