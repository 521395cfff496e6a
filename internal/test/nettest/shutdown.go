package nettest

import (
	"net"
	"sync/atomic"
)

// AfterShutdown has a server serve a listener that accepts nothing. The channel that it returns is
// closed in the middle of the server's Shutdown, when its engine was shut down.
func AfterShutdown(serve func(net.Listener) error) <-chan struct{} {
	ln, ended := &deafListener{accepts: make(chan struct{}), closed: make(chan struct{})}, make(chan struct{})
	go func() {
		_ = serve(ln)
		close(ended)
	}()
	<-ln.accepts
	return ended
}

// A deafListener accepts nothing until it is closed twice: by the server, and by the engine.
type deafListener struct {
	accepts, closed chan struct{}
	closes          atomic.Int32
}

// Accept implements net.Listener. One goroutine calls it.
func (l *deafListener) Accept() (net.Conn, error) {
	close(l.accepts)
	<-l.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *deafListener) Close() error {
	if l.closes.Add(1) == 2 {
		close(l.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (l *deafListener) Addr() net.Addr { return address{} }
