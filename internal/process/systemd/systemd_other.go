//go:build !linux

package systemd

import "syscall"

const isSupported = false

func checkPassed(int) error { return nil }

func openSocket(int, string) Socket { return Socket{} }

// IsShareable reports false: there are no sockets.
func (s Socket) IsShareable() bool { return false }

func (s *Service) send(string, syscall.Conn) error { return nil }

func monotonic() int64 { return 0 }
