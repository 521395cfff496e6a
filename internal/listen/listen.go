// Package listen makes TCP listeners with the socket options that servers
// under load want, and passes listeners from one process to another.
package listen

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// ErrReusePortUnsupported is returned, wrapped, where the system cannot share
// a port between sockets and balance connections over them.
var ErrReusePortUnsupported = errors.New("sluice: SO_REUSEPORT is not supported by this system")

// Options of a listening socket. The zero value asks for a plain listener.
type Options struct {
	// ReusePort lets several sockets listen on one port (SO_REUSEPORT; on
	// FreeBSD SO_REUSEPORT_LB, which balances as Linux does). It is an error
	// where the system cannot.
	ReusePort bool
	// DeferAccept makes Accept return a connection when its first bytes are
	// there (TCP_DEFER_ACCEPT; on FreeBSD the dataready filter). For protocols
	// in which the client speaks first. Ignored where the system cannot.
	DeferAccept bool
	// FastOpen accepts data in the client's SYN (TCP_FASTOPEN, RFC 7413).
	// Ignored where the system cannot.
	FastOpen bool
	// Backlog bounds the connections that wait for Accept. 0 or less: the
	// system's maximum (somaxconn), which also caps larger values.
	Backlog int
}

// Listen returns a TCP listener, always a *net.TCPListener and never one for
// Multipath TCP: the kernel refuses some options and BPF programs on those.
// network is "tcp", "tcp4" or "tcp6".
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

// finish sets what only a listening socket takes.
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
