//go:build linux && (amd64 || arm64)

package epoll

import (
	"net"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
)

// separate converts the connection to a net.Conn of package net, and removes it
// from the engine. The old descriptor is closed in any case.
func (c *conn) separate() (net.Conn, error) {
	if c.slot().has(flagAdded) {
		// The new descriptor refers to the same open file description, for which
		// epoll would otherwise continue to report events (epoll(7)).
		epollControl(c.driver.loopOf(c.fd).fd, syscall.EPOLL_CTL_DEL, c.fd, nil)
	}
	c.left = c.netConn() // Release may be called much later
	c.leave()
	file := os.NewFile(uintptr(c.fd), c.serving.network)
	defer file.Close()
	nc, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	if c.tlsConn != nil {
		c.tlsConn.under = nc
		return c.tlsConn.tls, nil
	}
	return nc, nil
}

// detachForGood passes the connection to its protocol's Detached, on a separate
// goroutine.
func (c *conn) detachForGood() {
	rest := append([]byte(nil), c.unread...)
	c.unread = nil
	nc, err := c.separate()
	if err != nil {
		c.fail(err)
		c.conclude()
		return
	}
	c.driver.closed(c.fd, c.serving)
	go c.live(engine.WithUnread(nc, rest))
}

// live calls Detached, and ends the connection afterwards.
func (c *conn) live(nc net.Conn) {
	cause := engine.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			cause = &engine.PanicError{Value: v, Stack: debug.Stack()}
		}
		defer c.serving.depart()
		defer c.serving.acceptor.Release(c.left)
		c.protocol.Closed(cause)
	}()
	c.protocol.Detached(nc)
	cause = nil
}

// A handover is a running DetachIdle. For a wanted connection that could not be
// detached, it receives a given without a connection.
type handover struct {
	given chan given
}

// given is a detached connection with its leftover input.
type given struct {
	nc       net.Conn
	leftover []byte
}

// DetachIdle implements engine.Engine. It calls take on the caller's goroutine,
// after Protocol.Closed and Release. Input that was not read stays in the socket;
// leftover is the input that a Rewinder returns.
func (d *driver) DetachIdle(limit int, take func(c net.Conn, leftover []byte)) int {
	if limit == 0 {
		return 0
	}
	d.handovers.Lock()
	defer d.handovers.Unlock()
	var wanted []int32
	d.table.each(func(fd int, p place) {
		if len(wanted) != limit && p.slot().claim(flagTake, flagFixed|flagTLS|flagSwitched) {
			wanted = append(wanted, int32(fd))
		}
	})
	h := &handover{make(chan given, len(wanted))}
	d.handover.Store(h)
	d.queueAll(wanted)
	count := 0
	for range wanted {
		if g := <-h.given; g.nc != nil {
			take(g.nc, g.leftover)
			count++
		}
	}
	if limit > 0 {
		limit -= count
	}
	return count + d.fallback.DetachIdle(limit, take)
}

// isIdle tells whether word is that of a connection between requests.
func isIdle(word uint64) bool { return word&(stateMask|flagPartial) == stateIdle }

// giveAway ends the connection's life here for DetachIdle.
func (c *conn) giveAway() {
	gift := c.gift
	c.gift = nil
	var leftover []byte
	if r, ok := c.protocol.(engine.Rewinder); ok && c.isPartial {
		leftover = r.Rewind()
	}
	probes, probesErr := syscall.GetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
	nc, err := c.separate()
	if tc, ok := nc.(*net.TCPConn); ok && probes == 0 && probesErr == nil {
		_ = tc.SetKeepAlive(false) // package net has begun to probe
	}
	if err != nil {
		c.fail(err)
	}
	defer func() { gift <- given{nc, leftover} }() // after Closed and Release
	c.conclude()
}

// deny tells DetachIdle that it does not get a connection that it waits for.
func (c *conn) deny() {
	if gift := c.gift; gift != nil {
		c.gift = nil
		gift <- given{}
	}
}
