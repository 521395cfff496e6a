package netconn

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
)

// refusalPatience bounds the writing of a refusal, and the lingering after it.
const refusalPatience = 50 * time.Millisecond

// handshaker is a connection with a handshake to make before its first byte:
// *tls.Conn.
type handshaker interface {
	HandshakeContext(context.Context) error
}

// adopt makes nc the worker's connection and registers it. departed is the
// acceptor's hook, whose Arrived was called. isOurs: nobody else keeps nc.
func (w *worker) adopt(nc net.Conn, a engine.Acceptor, departed func(), isOurs bool) {
	w.reset()
	w.nc, w.acceptor, w.departed = nc, a, departed
	w.mayGo.Store(isOurs && isBare(nc))
	if w.serving != nil {
		w.isOurs = w.serving.isOurs
	} else {
		w.isOurs = w.mayGo.Load() // an adopted socket: who gave it away sets no deadlines
	}
	w.registered = true
	w.driver.registry.add(&w.conn)
	if w.driver.killing.Load() { // it was accepted before, and killAll did not see it
		w.kill()
	}
}

// isBare tells whether nc is nothing but a stream socket.
func isBare(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn:
		return true
	case *net.UnixConn:
		addr := nc.LocalAddr()
		return addr != nil && addr.Network() == "unix" // the others are for packets
	}
	return false
}

// reset makes c's memory fit for another connection.
func (c *conn) reset() {
	c.State = drive.State{}
	c.ServedBy(c)
	c.acceptor, c.nc, c.departed = nil, nil, nil
	c.file, c.packed = nil, nil
	c.deadline, c.armed, c.timeout, c.hotUntil = 0, 0, 0, 0
	c.writeTimeout, c.writeArmed = 0, 0
	c.detached, c.reader = nil, nil
	c.extra.Store(nil)
	c.state.Store(stateBusy)
	c.killed.Store(false)
	c.poked.Store(false)
	c.prompter.Store(nil)
	c.next, c.prompts = engine.Read, 0
	c.mayGo.Store(false)
	c.handing = false
	c.busySince, c.cold, c.noDeadlines, c.deaf = false, false, false, false
	c.isTimed, c.isOurs, c.isStuck = false, false, false
}

// begin brings the connection to where it can be fed. False: it is gone.
func (w *worker) begin() bool {
	c := &w.conn
	ok, refusal := c.acceptor.Admit(c.nc)
	if !ok {
		if _, secret := c.nc.(handshaker); secret {
			refusal = nil
		}
		c.refuse(refusal)
		return false
	}
	c.admitted = true
	c.keepAlive()
	if err := c.handshake(); err != nil {
		c.Fail(err)
		c.closeNow(engine.Abort)
		return false
	}
	p, refusal := engine.Open(c.acceptor, c, c.packed)
	c.packed = nil
	if p == nil {
		c.refuse(refusal)
		return false
	}
	c.next = c.Begin(p)
	return true
}

// keepAlive applies Options.KeepAlivePeriod.
func (c *conn) keepAlive() {
	period := c.driver.options.KeepAlivePeriod
	if period == 0 {
		return
	}
	nc := c.nc
	if wrapped, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = wrapped.NetConn()
	}
	if tc, ok := nc.(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: period > 0, Idle: period, Interval: period})
	}
}

// handshake makes the TLS handshake, if there is one to make.
func (c *conn) handshake() error {
	h, ok := c.nc.(handshaker)
	if !ok {
		return nil
	}
	ctx := c.driver.ctx
	if timeout := c.driver.options.HandshakeTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return h.HandshakeContext(ctx)
}

// refuse writes refusal and closes, within a short time. It lingers, because
// closing with unread input would reset the connection.
func (c *conn) refuse(refusal []byte) {
	if len(refusal) > 0 {
		_ = c.nc.SetWriteDeadline(time.Now().Add(refusalPatience))
		_, _ = c.nc.Write(refusal)
		c.linger(refusalPatience)
	}
	c.closeNow(engine.Close)
}

// finish ends the connection in the way that next asks for.
func (c *conn) finish(next engine.Next) {
	switch {
	case c.handing:
		c.giveAway()
		return
	case c.Err != nil || next == engine.Abort:
		next = engine.Abort
	case next == engine.Detach:
		c.prepareDetach()
		return
	case next == engine.CloseLinger, len(c.Unread) > 0:
		c.linger(c.driver.options.LingerTimeout)
	}
	c.closeNow(next)
}

// connMemory is about what a connection's record and its goroutine's stack take.
const connMemory = 4 << 10

// closeNow closes the connection, unless there is none, and settles its
// accounts.
func (c *conn) closeNow(next engine.Next) {
	if c.nc == nil {
		return
	}
	c.releaseBuffers()
	c.dropFile()
	buf.LetGo(connMemory)
	if run := c.extra.Load(); run != nil { // a Run was cut short
		run.gone.Cancel()
		if b := run.blocking.Load(); b != nil {
			b.Sever()
		}
		c.extra.Store(nil)
	}
	if c.detached == nil {
		if c.isStuck && (next == engine.Abort || c.Err != nil) {
			forgetUnsent(c.nc)
		}
		_ = c.closer(next).Close()
	}
	c.conclude()
}

// forgetUnsent makes closing reset the connection: the system would otherwise
// keep what the peer does not take, megabytes for a long time.
func forgetUnsent(nc net.Conn) {
	if wrapper, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = wrapper.NetConn()
	}
	if socket, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = socket.SetLinger(0) // else it is kept
	}
}

// closer returns what Close is to be called on. Aborting a TLS connection does
// not wait for its closing alert to be written.
func (c *conn) closer(next engine.Next) io.Closer {
	if next != engine.Abort {
		return c.nc
	}
	if _, ok := c.nc.(handshaker); ok {
		if wrapper, ok := c.nc.(interface{ NetConn() net.Conn }); ok {
			return wrapper.NetConn()
		}
	}
	return c.nc
}

// conclude makes the calls that end a connection, each once even when one of
// them does not return in the normal way and conclude is called again.
func (c *conn) conclude() {
	if p := c.Protocol; p != nil {
		c.Protocol = nil
		p.Closed(c.Err)
	}
	if c.admitted {
		c.admitted = false
		c.acceptor.Release(c.nc)
	}
	c.depart()
	c.unregister()
	c.nc = nil
}

// depart tells the acceptor that the connection is over.
func (c *conn) depart() {
	if departed := c.departed; departed != nil {
		c.departed = nil
		departed()
	}
}

// unregister takes the connection off the engine's books.
func (c *conn) unregister() {
	if !c.registered {
		return
	}
	c.registered = false
	d := c.driver
	last := d.registry.remove(c) == 0
	c.endPrompter()
	if last {
		d.tellEmptied()
	}
}
