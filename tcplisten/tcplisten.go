// Package tcplisten opens TCP listeners with the socket options that matter to
// servers under load.
package tcplisten

import (
	"context"
	"net"

	"github.com/sluicehttp/sluice/internal/engine/listen"
)

// Config is a set of options for NewListener. The zero value asks for a plain
// listener. A Config may be used for many listeners, concurrently.
type Config struct {
	// ReusePort lets several sockets listen on the same address
	// (SO_REUSEPORT); the kernel distributes new connections over them.
	ReusePort bool

	// DeferAccept makes Accept return a connection only after its first bytes
	// have arrived (TCP_DEFER_ACCEPT; on FreeBSD the dataready filter). Use it
	// for protocols in which the client speaks first. macOS ignores it.
	DeferAccept bool

	// FastOpen accepts data in the first packet of clients that have connected
	// before (TCP_FASTOPEN, RFC 7413), where the system allows it.
	FastOpen bool

	// Backlog bounds the connections that wait for Accept. 0 means the
	// system's maximum, which also caps larger values.
	Backlog int
}

// NewListener returns a listener on addr, which is a *net.TCPListener. network is
// "tcp4", "tcp6" or "tcp". If the system does not support ReusePort (Windows),
// NewListener returns an error. It ignores other options that the system does not
// support.
func (cfg *Config) NewListener(network, addr string) (net.Listener, error) {
	return listen.Listen(context.Background(), network, addr, listen.Options{
		ReusePort:   cfg.ReusePort,
		DeferAccept: cfg.DeferAccept,
		FastOpen:    cfg.FastOpen,
		Backlog:     cfg.Backlog,
	})
}
