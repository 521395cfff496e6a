package listen

import "golang.org/x/sys/unix"

const (
	// acceptFilterNameSize and acceptFilterArgSize are the sizes of
	// accept_filter_arg's fields; see setsockopt(2).
	acceptFilterNameSize = 16
	acceptFilterArgSize  = 256 - acceptFilterNameSize
	acceptFilter         = "dataready"
)

// setReusePort sets SO_REUSEPORT_LB, which balances connections over the sockets.
// SO_REUSEPORT would give all of them to the newest socket.
func setReusePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT_LB, 1)
}

// setDeferAccept installs the dataready filter. It fails if the kernel module
// accf_data is not loaded. Connections are then accepted without it.
func setDeferAccept(fd int) {
	var arg [acceptFilterNameSize + acceptFilterArgSize]byte
	copy(arg[:acceptFilterNameSize-1], acceptFilter)
	_ = unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_ACCEPTFILTER, string(arg[:]))
}

// setFastOpen fails if net.inet.tcp.fastopen.server_enable is off. Clients then use
// full handshakes.
func setFastOpen(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 1)
}
