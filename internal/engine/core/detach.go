//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"net"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// emptyTries bounds the attempts to duplicate a descriptor when there is no free one.
const emptyTries = 100

// separate converts the socket to a net.Conn of package net, and removes the connection
// from the engine. The old descriptor is closed in any case.
func (c *conn) separate() (net.Conn, error) {
	if c.slot().has(flagAdded) {
		// The new descriptor refers to the same open file description, so closing
		// this one does not end its events.
		c.loop.poller.Remove(c.fd)
	}
	c.finalView = c.netConn() // Release may be called much later
	c.leave()
	file := os.NewFile(uintptr(c.fd), c.serving.network)
	defer file.Close()
	nc, err := net.FileConn(file)
	for tries := 0; errors.Is(err, syscall.EMFILE) && tries < emptyTries; tries++ {
		time.Sleep(time.Millisecond) // it duplicates the descriptor; others are about to close one
		nc, err = net.FileConn(file)
	}
	if err != nil {
		return nil, err
	}
	return nc, nil
}

// detachForGood passes the connection to its protocol's Detached, on a separate
// goroutine.
func (c *conn) detachForGood() {
	rest := append([]byte(nil), c.Unread...)
	c.Unread = nil
	nc, err := c.separate()
	if err != nil {
		c.Fail(err)
		c.eraseTLS()
		c.conclude()
		return
	}
	nc = engine.NewProxiedConn(nc, c.finalView.proxied)
	if c.tlsConn != nil {
		c.tlsConn.under = nc
		nc = c.tlsConn.session
	}
	c.driver.closed(c.loop, c.serving)
	go c.live(engine.WithUnread(nc, rest, nil))
}

// live calls Detached, and ends the connection afterwards.
func (c *conn) live(nc net.Conn) {
	cause := engine.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			cause = &engine.PanicError{Value: v, Stack: debug.Stack()}
		}
		defer c.serving.depart()
		defer c.serving.acceptor.Release(c.finalView)
		c.Protocol.Closed(cause)
	}()
	c.Protocol.Detached(nc)
	cause = nil
}

// A handover is a running DetachIdle. For a wanted connection that could not be
// detached, it receives a given without a connection.
type handover struct {
	given chan given
}

// given is a detached connection.
type given struct {
	nc     net.Conn
	parcel engine.Parcel
}

// DetachIdle implements engine.Engine. It calls take on the caller's goroutine,
// after Protocol.Closed and Release. Input that was not read stays in the socket;
// Leftover is the input that a Rewinder returns.
func (d *driver) DetachIdle(limit int, take func(c net.Conn, p engine.Parcel)) int {
	if limit == 0 {
		return 0
	}
	d.handovers.Lock()
	defer d.handovers.Unlock()
	var wanted []int32
	// It goes on where the last call has stopped: many small calls visit each connection once.
	d.detachFrom = d.table.around(d.detachFrom, func(fd int, p place) bool {
		if p.slot().claim(flagTake, flagFixed|flagStays) {
			wanted = append(wanted, int32(fd))
		}
		return len(wanted) != limit
	})
	h := &handover{make(chan given, len(wanted))}
	d.handover.Store(h)
	d.queueAll(wanted)
	count := 0
	for range wanted {
		if g := <-h.given; g.nc != nil {
			take(g.nc, g.parcel)
			count++
		}
	}
	if limit > 0 {
		limit -= count
	}
	return count + d.fallback.DetachIdle(limit, take)
}

// isIdle reports whether word is that of a connection between requests.
func isIdle(word uint64) bool { return word&(stateMask|flagPartial) == stateIdle }

// giveAway ends the connection's life here for DetachIdle.
func (c *conn) giveAway() {
	taker := c.taker
	c.taker = nil
	var p engine.Parcel
	if c.phase == phaseHanded { // otherwise it is new: a proxy's header is in the socket
		p = c.Parcel(c.packed)
		p.TLS, p.Proxy = c.packedTLS, c.serving.hooks.Proxy.Parcel(c.proxied())
	}
	probes, probesErr := syscall.GetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
	nc, err := c.separate()
	if tc, ok := nc.(*net.TCPConn); ok && probes == 0 && probesErr == nil {
		_ = tc.SetKeepAlive(false) // package net has begun to probe
	}
	if err != nil {
		clear(p.TLS) // it goes to no process
		c.Fail(err)
	}
	defer func() { taker <- given{nc, p} }() // after Closed and Release
	c.conclude()
}

// pack packs the protocol of a connection that DetachIdle has claimed, if it can be
// packed. False: the connection stays.
func (c *conn) pack() bool {
	if c.phase != phaseOpen {
		return true
	}
	if c.tlsConn != nil && !(c.CanMove() && c.tlsConn.isBetween()) {
		return false
	}
	c.wake()
	packed, ok := c.Pack()
	c.packed = packed
	if ok && c.tlsConn != nil {
		c.packedTLS = c.tlsConn.pack()
	}
	c.IsFed = true // if it stays, it is asked to Pause before it sleeps
	return ok
}

// deny tells DetachIdle that it does not get a connection that it waits for.
func (c *conn) deny() {
	if taker := c.taker; taker != nil {
		c.taker = nil
		taker <- given{}
	}
}
