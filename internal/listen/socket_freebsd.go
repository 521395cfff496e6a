package listen

import "golang.org/x/sys/unix"

const (
	// acceptFilterNameSize and acceptFilterArgSize are the two fields of
	// accept_filter_arg, see setsockopt(2).
	acceptFilterNameSize = 16
	acceptFilterArgSize  = 256 - acceptFilterNameSize
	acceptFilter         = "dataready"
)

// setReusePort uses the variant that balances connections over the sockets;
// plain SO_REUSEPORT gives them all to the newest.
func setReusePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT_LB, 1)
}

// setDeferAccept installs the dataready filter. It fails where the kernel
// module accf_data is not loaded; then connections are accepted without it.
func setDeferAccept(fd int) {
	var arg [acceptFilterNameSize + acceptFilterArgSize]byte
	copy(arg[:acceptFilterNameSize-1], acceptFilter)
	_ = unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_ACCEPTFILTER, string(arg[:]))
}

// setFastOpen fails where net.inet.tcp.fastopen.server_enable is off; then
// clients use full handshakes.
func setFastOpen(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 1)
}
