// Package reuseport makes TCP listeners that share their port with others
// (SO_REUSEPORT): each process, or each accept loop, listens on a socket of its
// own and the kernel spreads new connections over them.
package reuseport

import (
	"context"
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/listen"
)

// ErrNoReusePort is the error, as a pointer, of Listen on systems that have no
// SO_REUSEPORT, which are Windows and Linux before 3.9.
type ErrNoReusePort struct {
	err error
}

// Error describes what the system refused.
func (e *ErrNoReusePort) Error() string {
	if e.err == nil {
		return listen.ErrReusePortUnsupported.Error()
	}
	return e.err.Error()
}

// Unwrap returns the system's own error, nil if there was none.
func (e *ErrNoReusePort) Unwrap() error { return e.err }

// Listen returns a TCP listener with SO_REUSEPORT set before it was bound, so
// that every process of the same user may call it for the same address. network
// is "tcp4", "tcp6" or "tcp". Where the system has them, TCP_DEFER_ACCEPT and
// TCP_FASTOPEN are on too: connections show up when the client has sent
// something, as every HTTP client does first.
//
// The error is an *ErrNoReusePort where the system has no SO_REUSEPORT.
func Listen(network, addr string) (net.Listener, error) {
	ln, err := listen.Listen(context.Background(), network, addr, listen.Options{
		ReusePort:   true,
		DeferAccept: true,
		FastOpen:    true,
	})
	if errors.Is(err, listen.ErrReusePortUnsupported) {
		return nil, &ErrNoReusePort{err}
	}
	return ln, err
}
