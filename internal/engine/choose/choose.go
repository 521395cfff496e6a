// Package choose decides which engine serves which connections. Root and package
// tcp use it.
package choose

import (
	"flag"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/epoll"
	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

// New returns the event engine, which leaves connections that are not bare sockets
// to a goroutine each. If it is not wanted or not available, New returns the engine
// of goroutines alone; obstacle is why it is not available.
func New(options engine.Options, wantsEvents bool) (e engine.Engine, obstacle error) {
	fallback := netconn.New(options)
	if !wantsEvents {
		return fallback, nil
	}
	if e, obstacle = epoll.New(options, fallback); obstacle != nil {
		return fallback, obstacle
	}
	return e, nil
}

// Listener returns the kind of ln, and whether it yields bare sockets, with or
// without TLS. An event engine serves these only.
func Listener(ln net.Listener) (kind string, hasSockets bool) {
	switch l := ln.(type) {
	case *net.TCPListener:
		return "TCP listener", true
	case *net.UnixListener:
		return "unix listener", true
	case *engine.TLSListener:
		kind, hasSockets = Listener(l.Listener)
		return kind + " with TLS", hasSockets
	}
	return fmt.Sprintf("%T", ln), false
}

// IsMultipath reports whether ln, or the listener below its TLS, listens for Multipath
// TCP.
func IsMultipath(ln net.Listener) bool {
	if l, ok := ln.(*engine.TLSListener); ok {
		ln = l.Listener
	}
	return listen.IsMultipath(ln)
}

// toldMultipath reports whether LogMultipath has written its line.
var toldMultipath atomic.Bool

// LogMultipath writes one line with printf, which says what to do, if ln listens for
// Multipath TCP: once in a process, because what it says holds for all listeners. A test's
// listeners are not worth it.
func LogMultipath(ln net.Listener, printf func(format string, args ...any)) {
	isTest := flag.Lookup("test.v") != nil // of package testing
	if !isTest && IsMultipath(ln) && !toldMultipath.Swap(true) {
		printf("the listener on %v is for multipath TCP, so each new connection costs half as much CPU time again; "+
			"for plain TCP use ListenAndServe, tcplisten.Config or GODEBUG=multipathtcp=0", ln.Addr())
	}
}

// AdoptSocket has e adopt the connected stream socket fd, by its descriptor if e can.
// It owns fd, even if it returns an error.
func AdoptSocket(e engine.Engine, fd int, p engine.Parcel, a engine.Acceptor) error {
	if adopter, ok := e.(engine.Adopter); ok && fd >= 0 {
		return adopter.Adopt(fd, p, a)
	}
	c, err := SocketConn(fd)
	if err != nil {
		return err
	}
	return e.AdoptConn(c, p, a)
}

// SocketConn returns the connection of the connected socket fd, which it owns.
func SocketConn(fd int) (net.Conn, error) {
	if fd < 0 {
		return nil, os.NewSyscallError("adopt", syscall.EBADF)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close() // FileConn duplicates it
	return net.FileConn(file)
}
