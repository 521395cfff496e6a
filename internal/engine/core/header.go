//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"os"
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/proxy"
)

// awaitHeader receives what a proxy says before everything else, or sets waitHello if that is
// not there completely: what has come stays in the socket. It ends connections without a
// header that must have one.
func (c *conn) awaitHeader() engine.Next {
	if c.driver.life.Has(engine.StageShutDown) { // see beginTLS
		c.Fail(engine.ErrShutdown)
		return engine.Abort
	}
	s := c.slot()
	expects, err := c.serving.hooks.Proxy.Expects(c.remote(), c.serving.network == "unix")
	if err != nil {
		return c.refuseHeader(err)
	}
	if expects {
		isWhole, err := c.receiveHeader()
		if err != nil {
			return c.refuseHeader(err)
		}
		if !isWhole {
			if timeout := c.driver.options.HandshakeTimeout; timeout > 0 && c.readDeadline() == 0 {
				c.SetReadDeadline(clock.Nanos(), timeout)
			}
			s.set(flagFresh)
			c.wait = waitHello
			return engine.Read
		}
		c.SetReadDeadline(0, 0)
	}
	s.take(flagHandshake)
	return engine.Read
}

// receiveHeader takes the header from the socket if it is there as a whole.
func (c *conn) receiveHeader() (isWhole bool, err error) {
	room := c.In
	if len(room) < proxy.MaxSize { // with MaxSize bytes the header is whole, or wrong
		b := buf.Get(proxy.MaxSize)
		defer b.Release()
		room = b.B[:proxy.MaxSize]
	}
	n, errno := c.driver.source.Peek(c.fd, room)
	switch {
	case n > 0:
	case errno == syscall.EAGAIN:
		return false, nil
	case errno == 0:
		return false, io.EOF
	default:
		return false, os.NewSyscallError("recv", errno)
	}
	said, size, isWhole, err := c.serving.hooks.Proxy.Parse(room[:n])
	switch {
	case err != nil:
		return false, err
	case !isWhole && c.slot().has(flagGone):
		return false, io.ErrUnexpectedEOF
	case !isWhole || size == 0:
		return isWhole, nil
	}
	if n, errno := c.driver.source.Recv(c.fd, room[:size]); n != size {
		return false, os.NewSyscallError("recv", errno)
	}
	c.place.setProxied(said)
	return true, nil
}

// refuseHeader ends a connection because of what comes in place of a header.
func (c *conn) refuseHeader(err error) engine.Next {
	if c.slot().has(flagKill) { // its input has ended because of that
		err = c.driver.killCause()
	} else if err != io.EOF { // as from a balancer that only looks whether the port is open
		c.serving.hooks.Proxy.Refuse(c.RemoteAddr(), err)
	}
	c.Fail(err)
	return engine.Abort
}
