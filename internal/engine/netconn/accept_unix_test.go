//go:build unix

package netconn

import "syscall"

func getKeepAlive(fd uintptr) (int, error) {
	return syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
}
