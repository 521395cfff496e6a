// Package reuseport opens TCP listeners that share a port (SO_REUSEPORT, see
// socket(7)). Each process, or each accept loop, listens on its own socket, and the
// kernel distributes new connections over the sockets.
package reuseport

import (
	"context"
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/engine/listen"
)

// ErrNoReusePort is the error of Listen, as a pointer, on systems without
// SO_REUSEPORT: Windows, and Linux before 3.9.
type ErrNoReusePort struct {
	err error
}

// Error returns the text of the system's error.
func (e *ErrNoReusePort) Error() string {
	if e.err == nil {
		return listen.ErrReusePortUnsupported.Error()
	}
	return e.err.Error()
}

// Unwrap returns the wrapped error; nil if there is none.
func (e *ErrNoReusePort) Unwrap() error { return e.err }

// Listen returns a TCP listener whose socket has SO_REUSEPORT, so every process of
// the same user may call Listen for the same address. network is "tcp4", "tcp6" or
// "tcp". Where the system has them, TCP_DEFER_ACCEPT and TCP_FASTOPEN (tcp(7)) are
// on too. Accept then returns a connection only after the client has sent data,
// so do not use it for protocols in which the server speaks first.
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
