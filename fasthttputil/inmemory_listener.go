package fasthttputil

import (
	"net"
	"sync"
)

// InmemoryListener is a net.Listener whose clients dial it by method. It must
// come from NewInmemoryListener; all methods may be called concurrently.
type InmemoryListener struct {
	dialed chan net.Conn // unbuffered: a send completes when Accept has the connection
	done   chan struct{} // closed by Close

	mu     sync.Mutex // guards what follows
	closed bool
	addr   net.Addr // nil: the default
}

// NewInmemoryListener returns an open listener.
func NewInmemoryListener() *InmemoryListener {
	return &InmemoryListener{dialed: make(chan net.Conn), done: make(chan struct{})}
}

// SetLocalAddr sets what Addr returns, which is also the server's address on
// connections dialed from now on. nil restores the default, an address called
// "InmemoryListener" of network "inmemory".
func (ln *InmemoryListener) SetLocalAddr(localAddr net.Addr) {
	ln.mu.Lock()
	ln.addr = localAddr
	ln.mu.Unlock()
}

// Addr returns the listener's address.
func (ln *InmemoryListener) Addr() net.Addr {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.addr == nil {
		return inmemoryAddr{}
	}
	return ln.addr
}

// Accept waits for a Dial and returns the server's end of its connection.
// After Close it returns ErrInmemoryListenerClosed.
func (ln *InmemoryListener) Accept() (net.Conn, error) {
	if ln.isClosed() {
		return nil, ErrInmemoryListenerClosed
	}
	select {
	case c := <-ln.dialed:
		return c, nil
	case <-ln.done:
		return nil, ErrInmemoryListenerClosed
	}
}

// Close makes waiting and later Accepts and Dials fail. Accepted connections
// stay open. The second Close returns ErrInmemoryListenerClosed.
func (ln *InmemoryListener) Close() error {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return ErrInmemoryListenerClosed
	}
	ln.closed = true
	close(ln.done)
	return nil
}

// Dial connects to the listener and returns the client's end. It waits until
// Accept has taken the server's end, and returns ErrInmemoryListenerClosed if
// the listener is closed first.
func (ln *InmemoryListener) Dial() (net.Conn, error) { return ln.DialWithLocalAddr(nil) }

// DialWithLocalAddr is Dial from a client that calls itself local: its
// LocalAddr, and RemoteAddr on the server's end. nil means an address called
// "pipe".
func (ln *InmemoryListener) DialWithLocalAddr(local net.Addr) (net.Conn, error) {
	if ln.isClosed() {
		return nil, ErrInmemoryListenerClosed
	}
	if local == nil {
		local = pipeAddr{}
	}
	server := ln.Addr()
	pc := NewPipeConns()
	pc.SetAddresses(local, server, server, local)
	select {
	case ln.dialed <- pc.Conn2():
		return pc.Conn1(), nil
	case <-ln.done:
		return nil, ErrInmemoryListenerClosed
	}
}

func (ln *InmemoryListener) isClosed() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.closed
}

// inmemoryAddr is the address of a listener that was given none.
type inmemoryAddr struct{}

// Network returns "inmemory".
func (inmemoryAddr) Network() string { return "inmemory" }

// String returns "InmemoryListener".
func (inmemoryAddr) String() string { return "InmemoryListener" }
