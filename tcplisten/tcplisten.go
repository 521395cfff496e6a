// Package tcplisten makes TCP listeners with the socket options that matter to
// servers under load.
package tcplisten

import (
	"context"
	"net"

	"github.com/sluicehttp/sluice/internal/listen"
)

// Config is a set of options for NewListener. The zero value asks for a plain
// listener. A Config may be used for many listeners, concurrently.
type Config struct {
	// ReusePort lets several sockets listen on the same address
	// (SO_REUSEPORT); the kernel spreads new connections over them.
	ReusePort bool

	// DeferAccept makes Accept return connections only when their first bytes
	// have come (TCP_DEFER_ACCEPT; on FreeBSD the dataready filter). It fits
	// protocols in which the client speaks first. macOS ignores it.
	DeferAccept bool

	// FastOpen accepts data in the first packet of clients that were here
	// before (TCP_FASTOPEN, RFC 7413), where the system allows it.
	FastOpen bool

	// Backlog bounds the connections that wait for Accept. 0 means the
	// system's maximum, which also caps larger values.
	Backlog int
}

// NewListener returns a listener on addr. network is "tcp4", "tcp6" or "tcp";
// the listener is a *net.TCPListener. ReusePort is an error where the system
// cannot (Windows); the other options are hints and then ignored.
func (cfg *Config) NewListener(network, addr string) (net.Listener, error) {
	return listen.Listen(context.Background(), network, addr, listen.Options{
		ReusePort:   cfg.ReusePort,
		DeferAccept: cfg.DeferAccept,
		FastOpen:    cfg.FastOpen,
		Backlog:     cfg.Backlog,
	})
}
