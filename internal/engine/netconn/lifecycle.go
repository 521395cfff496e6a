package netconn

import (
	"cmp"
	"context"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// refusalPatience bounds the writing of a refusal, and the lingering after it.
const refusalPatience = 50 * time.Millisecond

// connMemory is the approximate size of a connection's record and stack.
const connMemory = 4 << 10

// handshaker is a connection with a handshake before its first byte: *tls.Conn.
type handshaker interface {
	HandshakeContext(context.Context) error
}

// register makes the connection known to the engine, unless that has ended.
func (c *conn) register() bool {
	if !c.driver.registry.add(c) {
		return false
	}
	if c.driver.life.Has(engine.StageKilling) { // it was accepted before, and killAll did not see it
		c.kill()
	}
	return true
}

// run serves the connection, and reports whether its goroutine may serve another one: what
// a protocol does in Detached may need a large stack.
func (c *conn) run() bool { return c.handOn(c.serve()) }

// rest waits for input of a connection that has been idle, and goes on. Its goroutine is
// a new one, because a goroutine has 2 KiB of stack until it needs more, and would not get
// back below 4 KiB: so nothing is called here but Read, for which that is enough.
func (c *conn) rest() {
	n, err := c.nc.Read(c.one[:])
	c.goOn(n, err)
}

// goOn serves the connection on, with what rest has read.
func (c *conn) goOn(n int, err error) {
	c.endRest()
	c.handOn(c.resume(n, err))
}

// handOn ends a goroutine's work for the connection, after serve or resume, and tells
// whether it may serve another one. If the connection rests, it has another goroutine then.
func (c *conn) handOn(detached net.Conn) bool {
	switch {
	case c.activity == resting:
		go c.rest()
		return true
	case detached != nil:
		c.live(detached)
		return false
	}
	return c.recycle()
}

// recycle gives c to another connection, unless a panic has cut it short: the
// handler's goroutines may then still use c.
func (c *conn) recycle() bool {
	if _, hasPanicked := c.Err.(*engine.PanicError); hasPanicked {
		return false
	}
	c.driver.conns.put(c)
	return true
}

// serve serves the connection until it has ended. If a Run detaches it, live must be
// called with the result.
func (c *conn) serve() (detached net.Conn) {
	defer c.end()
	next := c.begin()
	if next == engine.Read {
		c.attachBuffers()
		return c.finish(c.pump(c.Unread, next))
	}
	if detached = c.finish(next); detached != nil { // Start wants the connection
		c.live(detached)
	}
	return nil
}

// resume is serve for a connection that has rested, with what was read.
func (c *conn) resume(n int, err error) (detached net.Conn) {
	defer c.end()
	c.awaken()
	in, next := c.gotResult(c.one[:n], err)
	return c.finish(c.pump(in, next))
}

// sleep lets the protocol of a connection that is about to rest sleep, if it can and wants to.
func (c *conn) sleep() {
	if c.IsPartial || !c.Can.Has(engine.CanSleep) {
		return
	}
	memo, ok := c.Protocol.(engine.Sleeper).Sleep()
	if !ok {
		c.IsFed = true // it is asked again only after another Pause
		return
	}
	c.memo, c.Protocol = memo, nil
}

// awaken undoes sleep.
func (c *conn) awaken() {
	if c.Protocol == nil {
		c.Protocol = c.acceptor.(engine.Waker).Wake(c, c.memo)
		c.Can, c.IsFed = c.Protocol.Capabilities(), true // it must Pause before it sleeps again
	}
}

// takePacked returns what is packed, once.
func (c *conn) takePacked() (packed []byte) {
	if c.packed != nil {
		packed, c.packed = *c.packed, nil
	}
	return packed
}

// live gives a detached connection to its protocol.
func (c *conn) live(detached net.Conn) {
	defer c.end()
	c.phase = phaseLive
	c.Protocol.Detached(detached)
	c.conclude()
}

// end is the deferred call of serve and live. It cleans up if Goexit or a panic in a
// handler has ended them.
func (c *conn) end() {
	if v := recover(); v != nil {
		c.Fail(&engine.PanicError{Value: v, Stack: debug.Stack()})
	} else if c.phase == phaseEnded || c.phase == phaseDetached || c.activity == resting {
		return
	}
	c.Fail(engine.ErrGoexit)
	c.closeNow(engine.Abort)
}

// begin opens the connection. A result other than Read ends it.
func (c *conn) begin() engine.Next {
	if c.awaitsHeader {
		if err := c.receiveHeader(); err != nil {
			c.Fail(err)
			return engine.Abort
		}
	}
	ok, refusal := c.acceptor.Admit(c.NetConn())
	if !ok {
		if _, isTLS := c.nc.(handshaker); isTLS {
			refusal = nil
		}
		return c.refuse(refusal)
	}
	c.phase = phaseAdmitted
	c.keepAlive()
	if err := c.handshake(); err != nil {
		c.Fail(err)
		if below, refusal := engine.PlainRefusal(c.acceptor, err); len(refusal) > 0 {
			_ = below.SetDeadline(time.Now().Add(refusalPatience))
			_, _ = below.Write(refusal)
			c.discard(below, refusalPatience)
		}
		return engine.Abort
	}
	p, refusal := engine.Open(c.acceptor, c, c.takePacked())
	if p == nil {
		return c.refuse(refusal)
	}
	c.phase = phaseOpen
	return c.Begin(p)
}

// receiveHeader receives what a proxy says before everything else. The error means that the
// connection must end.
func (c *conn) receiveHeader() error {
	rule := engine.HooksOf(c.acceptor).Proxy
	ctx, cancel := c.driver.ctx, context.CancelFunc(func() {})
	if timeout := c.driver.options.HandshakeTimeout; timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	said, rest, err := rule.ReceiveBelow(ctx, c.nc)
	switch err {
	case nil, engine.ErrShutdown, io.EOF: // the last as from a balancer that only looks whether the port is open
	default:
		rule.Refuse(c.nc.RemoteAddr(), err)
	}
	c.Unread = rest
	c.setProxied(said)
	return err
}

// setProxied notes what a proxy has said.
func (c *conn) setProxied(said *engine.Proxied) {
	if _, isTLS := c.nc.(handshaker); said != nil && !isTLS { // TLS is over a ProxiedConn
		c.proxied.Store(engine.NewProxiedConn(c.nc, said).(*engine.ProxiedConn))
	}
}

// underneath returns the connection that nc wraps, or nc.
func underneath(nc net.Conn) net.Conn {
	if wrapper, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = wrapper.NetConn()
	}
	if proxied, ok := nc.(*engine.ProxiedConn); ok {
		return proxied.Conn
	}
	return nc
}

// keepAlive applies Options.KeepAlivePeriod.
func (c *conn) keepAlive() {
	period := c.driver.options.KeepAlivePeriod
	if period == 0 {
		return
	}
	if tc, ok := underneath(c.nc).(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: period > 0, Idle: period, Interval: period})
	}
}

// handshake makes the TLS handshake, if there is one to make.
func (c *conn) handshake() (err error) {
	h, ok := c.nc.(handshaker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(c.driver.ctx)
	defer cancel()
	over := c.driver.handshakes.Begin(cancel)
	defer func() { err = cmp.Or(over(), err) }()
	if timeout := c.driver.options.HandshakeTimeout; timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return h.HandshakeContext(ctx)
}

// refuse writes refusal and closes, within a short time. It lingers, because closing
// with unread input would reset the connection.
func (c *conn) refuse(refusal []byte) engine.Next {
	if len(refusal) > 0 {
		_ = c.nc.SetWriteDeadline(time.Now().Add(refusalPatience))
		_, _ = c.nc.Write(refusal)
		c.linger(refusalPatience)
	}
	c.closeNow(engine.Close)
	return engine.Close
}

// finish ends the connection in the way that next asks for, unless it rests. It returns the
// connection if next is Detach.
func (c *conn) finish(next engine.Next) (detached net.Conn) {
	switch {
	case c.activity == resting:
		return nil
	case c.phase == phaseHanded:
		c.giveAway()
		return nil
	case c.Err != nil:
		next = engine.Abort
	case next == engine.Abort, c.phase == phaseEnded: // or refused
	case next == engine.Detach:
		return c.detach()
	case next == engine.CloseLinger, len(c.Unread) > 0, hasInput(c.nc):
		c.linger(c.driver.options.LingerTimeout)
	}
	c.closeNow(next)
	return nil
}

// closeNow closes the connection, if that was not done yet.
func (c *conn) closeNow(next engine.Next) {
	if c.phase == phaseEnded {
		return
	}
	c.detachBuffers()
	c.dropFile()
	buf.LetGo(connMemory)
	if run := c.extra.Load(); run != nil { // a Run was cut short
		run.gone.Cancel()
		if b := run.blocking.Load(); b != nil {
			b.Sever()
		}
		c.extra.Store(nil)
	}
	if c.phase < phaseDetached {
		if c.isStuck && (next == engine.Abort || c.Err != nil) {
			forgetUnsent(c.nc)
		}
		_ = c.closer(next).Close()
	}
	c.conclude()
}

// forgetUnsent makes closing reset the connection. Otherwise the system would keep the
// output that the peer does not accept: megabytes, for a long time.
func forgetUnsent(nc net.Conn) {
	if socket, ok := underneath(nc).(interface{ SetLinger(seconds int) error }); ok {
		_ = socket.SetLinger(0) // after an error it is kept
	}
}

// closer returns what to close. The Close of a TLS connection waits until its closing
// alert is written; an Abort does not.
func (c *conn) closer(next engine.Next) io.Closer {
	if _, isTLS := c.nc.(handshaker); isTLS && next == engine.Abort {
		return underneath(c.nc)
	}
	return c.nc
}

// conclude makes the calls that end a connection: each once, even if one of them does
// not return and conclude is called again.
func (c *conn) conclude() {
	if c.phase >= phaseOpen {
		p := c.Protocol
		c.Protocol, c.phase = nil, phaseAdmitted
		if p != nil { // Wake has not panicked
			p.Closed(c.Err)
		}
	}
	if c.phase == phaseAdmitted {
		c.phase = phaseFresh
		c.acceptor.Release(c.NetConn())
	}
	if departed := c.departed; departed != nil {
		c.departed = nil
		departed()
	}
	c.phase = phaseEnded
	c.unregister()
}

// unregister makes the engine forget the connection.
func (c *conn) unregister() {
	wasLast := c.driver.registry.remove(c)
	c.endPrompter()
	if wasLast {
		c.driver.tellEmptied()
	}
}
