//go:build linux

package member

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// bindAddressNoPort is IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect,
// when the other end is known, so that ports can be used several times.
const bindAddressNoPort = 24

// connectRetries is how often a connection is tried again that a full queue has
// refused.
const connectRetries = 3

// connect makes the connections.
func (c *client) connect(order control.Connect) {
	work := make(chan endpoints, order.Dialers)
	c.upgrades = make(chan struct{}, max(order.Dialers, 1))
	var dialers sync.WaitGroup
	for range max(order.Dialers, 1) {
		dialers.Go(func() {
			for e := range work {
				if err := c.connectOne(e); err != nil {
					c.failed.Add(1)
					c.note(err)
				}
			}
		})
	}
	servers := make(map[string]bool)
	for _, target := range order.Targets {
		e, err := parseEndpoints(target)
		if err != nil {
			c.fail(err)
		}
		conns := target.Conns
		if c.config.Scenario.Protocol == scenario.SSE && !servers[target.Addr] {
			servers[target.Addr] = true
			conns++ // the publisher
		}
		for range conns {
			work <- e
		}
	}
	close(work)
	dialers.Wait()
	// The engine opens connections on its own time.
	total := int64(0)
	for _, target := range order.Targets {
		total += int64(target.Conns)
	}
	for c.opened.Load()+c.failed.Load() < total {
		time.Sleep(poll)
	}
	c.settled.Store(true)
	c.send(c.stats(false))
}

// endpoints are the two ends of a connection.
type endpoints struct{ source, server syscall.SockaddrInet4 }

func parseEndpoints(t control.Target) (e endpoints, err error) {
	source, err := netip.ParseAddr(t.Source)
	if err != nil {
		return e, err
	}
	server, err := netip.ParseAddrPort(t.Addr)
	if err != nil {
		return e, err
	}
	e.source = syscall.SockaddrInet4{Addr: source.As4()}
	e.server = syscall.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())}
	return e, nil
}

// connectOne makes a connection and gives it to the engine.
func (c *client) connectOne(e endpoints) error {
	for try := 0; ; try++ {
		fd, err := dial(e)
		if err == nil {
			return c.adopt(fd)
		}
		if try == connectRetries {
			return err
		}
		time.Sleep(100 * time.Millisecond << try)
	}
}

// adopt gives a connection to the engine, in the state in which it wants it.
func (c *client) adopt(fd int) error {
	switch c.config.Scenario.Protocol {
	case scenario.HTTPS:
		return c.adoptSecret(fd)
	case scenario.WebSocket:
		return c.upgrade(fd)
	case scenario.HTTP2, scenario.SSE:
		c.upgrades <- struct{}{}
		if err := c.server.AdoptSocket(fd); err != nil {
			<-c.upgrades
			return err
		}
		return nil
	}
	return c.server.AdoptSocket(fd)
}

// socketConn returns the net.Conn of a socket.
func socketConn(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "socket")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return nil, err
	}
	if socket, ok := conn.(*net.TCPConn); ok {
		_ = socket.SetKeepAlive(false) // as all others have it
	}
	return conn, nil
}

// dial returns the descriptor of a new connection. It is a thread that waits, as
// there are few dialers, and a connection on loopback is made at once.
func dial(e endpoints) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	// Whoever closes resets the connection: a million of them would otherwise
	// hold their ports for a minute.
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, bindAddressNoPort, 1)
	if err = syscall.Bind(fd, &e.source); err != nil {
		err = fmt.Errorf("bind to %v: %w", netip.AddrFrom4(e.source.Addr), err)
	} else if err = connectBlocking(fd, &e.server); err != nil {
		err = fmt.Errorf("connect to %v:%d: %w", netip.AddrFrom4(e.server.Addr), e.server.Port, err)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connectBlocking connects. The runtime's signals may interrupt a connect that
// waits, which then goes on.
func connectBlocking(fd int, server *syscall.SockaddrInet4) error {
	for {
		err := syscall.Connect(fd, server)
		switch err {
		case syscall.EINTR, syscall.EALREADY:
			time.Sleep(time.Millisecond)
		case syscall.EISCONN:
			return nil
		default:
			return err
		}
	}
}
