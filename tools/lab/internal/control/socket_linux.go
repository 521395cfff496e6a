package control

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen returns a listener for processes of the same user. Its address is an
// abstract one: nothing is left in the file system.
func Listen() (*net.UnixListener, error) {
	var random [8]byte
	_, _ = rand.Read(random[:])
	name := fmt.Sprintf("@sluice-lab-%d-%s", os.Getpid(), hex.EncodeToString(random[:]))
	return net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
}

// Dial connects a process with its coordinator.
func Dial(name string) (*Link, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return NewLink(conn), nil
}

// IsOurs reports whether the other end of conn is a process of the same user: any
// process may connect to an abstract address.
func IsOurs(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	isOurs := false
	_ = raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		isOurs = err == nil && int(peer.Uid) == os.Getuid()
	})
	return isOurs
}
