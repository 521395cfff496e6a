package listen

import "golang.org/x/sys/unix"

func setReusePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

// setDeferAccept does nothing: macOS has no such option.
func setDeferAccept(int) {}

// setFastOpen fails if net.inet.tcp.fastopen forbids it. Clients then use full
// handshakes.
func setFastOpen(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 1)
}
