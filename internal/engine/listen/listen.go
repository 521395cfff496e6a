// Package listen creates TCP listeners with socket options for servers under load,
// and passes listeners between processes.
package listen

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// ErrReusePortUnsupported is returned, wrapped, if the system cannot balance
// connections over sockets that share a port.
var ErrReusePortUnsupported = errors.New("sluice: SO_REUSEPORT is not supported by this system")

// Options are options of a listening socket. The zero value is a plain listener.
type Options struct {
	// ReusePort lets several sockets listen on one port (SO_REUSEPORT; on FreeBSD
	// SO_REUSEPORT_LB, which balances as Linux does). If the system does not support
	// it, Listen returns an error.
	ReusePort bool
	// DeferAccept makes Accept return a connection when its first bytes have arrived
	// (TCP_DEFER_ACCEPT; on FreeBSD the dataready filter). It is for protocols in
	// which the client sends first. Systems without it ignore it.
	DeferAccept bool
	// FastOpen accepts data in the client's SYN (TCP_FASTOPEN, RFC 7413). Systems
	// without it ignore it.
	FastOpen bool
	// Backlog bounds the connections that wait for Accept. 0 or less: the system's
	// maximum (somaxconn), which also bounds larger values.
	Backlog int
}

// Listen returns a TCP listener. It is always a *net.TCPListener and never one for
// Multipath TCP, for which the kernel refuses some options and BPF programs. network
// is "tcp", "tcp4" or "tcp6".
func Listen(ctx context.Context, network, addr string, o Options) (net.Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, net.UnknownNetworkError(network)
	}
	if o.ReusePort && !canReusePort {
		return nil, ErrReusePortUnsupported
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd uintptr) error { return setBeforeBind(fd, o) })
	}}
	config.SetMultipathTCP(false)
	ln, err := config.Listen(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if err := finish(ln.(*net.TCPListener), o); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// Packet returns a UDP socket. network is "udp", "udp4" or "udp6". With hasGroup it joins
// the group of sockets that share the port; see Options.ReusePort.
func Packet(ctx context.Context, network, addr string, hasGroup bool) (*net.UDPConn, error) {
	if hasGroup && !canReusePort {
		return nil, ErrReusePortUnsupported
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd uintptr) error { return setBeforeBind(fd, Options{ReusePort: hasGroup}) })
	}}
	c, err := config.ListenPacket(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// IsMultipath reports whether ln's socket is one for Multipath TCP (RFC 8684), as that
// of net.Listen is where the kernel has it. It is false for a listener that does not
// give access to its socket.
func IsMultipath(ln net.Listener) bool {
	owner, ok := ln.(syscall.Conn)
	if !ok {
		return false
	}
	c, err := owner.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	_ = c.Control(func(fd uintptr) { is = isMultipath(fd) }) // fails if ln is closed
	return is
}

// SetIncomingCPU has the kernel prefer ln for the connections that cpu receives, among
// the sockets that share its port. It does nothing where there is no SO_INCOMING_CPU;
// Linux before 6.2 ignores it.
func SetIncomingCPU(ln *net.TCPListener, cpu int) error {
	c, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	return control(c, func(fd uintptr) error { return setIncomingCPU(fd, cpu) })
}

// finish sets the options that need a listening socket.
func finish(ln *net.TCPListener, o Options) error {
	c, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	return control(c, func(fd uintptr) error { return setAfterListen(fd, o) })
}

// control runs f on the descriptor of c and returns its error or control's own.
func control(c syscall.RawConn, f func(fd uintptr) error) error {
	var inner error
	if err := c.Control(func(fd uintptr) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}
