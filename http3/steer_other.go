//go:build !linux

package http3

import (
	"errors"
	"syscall"
)

// hasPackets returns false: there is no program to steer by.
func hasPackets(socket) bool { return false }

// steer returns an error: only Linux can select the socket of a packet.
func steer(syscall.Conn, byte, []int, []int) error {
	return errors.New("http3: several UDP sockets of one port need Linux")
}
