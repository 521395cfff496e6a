package fasthttputil

import (
	"net"
	"sync"
)

// InmemoryListener is a net.Listener whose clients connect with its method Dial.
// Create it with NewInmemoryListener. All methods may be called concurrently.
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

// SetLocalAddr sets the address that Addr returns. It also is the server's
// address of connections that are dialed from now on. nil restores the default,
// the address "InmemoryListener" of the network "inmemory".
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

// Close closes the listener: blocked and later calls of Accept and Dial fail.
// Accepted connections stay open. A second Close returns
// ErrInmemoryListenerClosed.
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

// DialWithLocalAddr is Dial with the client's address: local is the LocalAddr of
// the client's end and the RemoteAddr of the server's end. nil selects the
// address "pipe".
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

// inmemoryAddr is the default address of a listener.
type inmemoryAddr struct{}

// Network returns "inmemory".
func (inmemoryAddr) Network() string { return "inmemory" }

// String returns "InmemoryListener".
func (inmemoryAddr) String() string { return "InmemoryListener" }
