//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// A conn holds what a connection needs beyond its slot while a worker serves it, or
// while it waits for more of a request or for room to write. The worker that has
// claimed the connection owns it, except for the atomic fields.
type conn struct {
	connState
	retired retired       // for the next connection of the same serving
	gone    engine.Notice // OnPeerGone, with noticeKey
	signals atomic.Pointer[signals]
}

// A retired is a Protocol that belongs to a conn: it is the conn's Protocol, which isReused
// then says, or sleeps. The zero value is none.
type retired struct {
	protocol engine.Protocol
	reusable engine.Reusable // protocol
	can      engine.Capabilities
	serving  *serving
}

// A connState holds the fields of a conn that are reset when its connection ends or
// sleeps.
type connState struct {
	drive.State // In is the worker's buffer; without a Protocol there is none yet, or it is asleep
	driver      *driver
	loop        *loop
	place       place
	fd          int
	gen         uint32
	serving     *serving
	worker      *worker // whose buffers are attached; nil while waiting

	// While the connection waits for room, these hold Out and Unread.
	pendingOut, pendingIn *buf.Buffer
	file                  engine.File // sent after Out; Source nil: none

	phase phase
	wait  waitKind

	deadline     int64 // of waiting for input, in clock.Nanos; 0: none
	writeTimeout int64
	writeBy      int64 // deadline of pending output; 0: none
	stalledSince int64 // when the pending output began to wait; 0: no output waits
	lingerBy     int64

	tlsConn   *tlsConn // the TLS state, which outlives this conn; nil: a bare socket
	view      *netConn // the result of NetConn; nil: not called
	run       *runState
	finalView *netConn // the addresses, once the slot may be another connection's; nil: not ended

	taker      chan<- given // DetachIdle, which waits for the connection; nil: it does not
	packed     []byte       // what DetachIdle gets of the protocol
	packedTLS  []byte       // and of TLS
	lingerLeft int
	// isUsual: this is an open connection of bare TCP that was asleep, and since then there
	// were requests only, which were read and answered without anything that changes another
	// field for longer than they last. So phase and wait are as in a sleeping one.
	isUsual bool
	connMarks
}

// connMarks are the marks of a conn. They are cleared together.
type connMarks struct {
	isDated   bool // deadline is valid; otherwise the slot's expiry is
	isShown   bool // place.conn holds it
	isHeld    bool // Out waits for a batch
	isStuck   bool // the peer has not accepted the output within the write time-out
	isDrained bool // the last read left nothing
	awaitsFIN bool // some of the output may not be sent before the FIN is
	hasEnded  bool // and found the peer's FIN
	isReused  bool // Protocol is retired.protocol
	isWatched bool // gone has a callback, or has called it
	// isLent: it isUsual, except that OnPeerGone shows it until the end of the Run.
	isLent bool
}

// A phase is how far a connection has come.
type phase uint8

const (
	phaseFresh     phase = iota // not admitted
	phaseAdmitted               // no protocol yet; with TLS, not before the handshake has ended
	phaseOpen                   // it has a protocol, maybe asleep
	phaseLingering              // the peer was told of the end, and its input is discarded
	phaseHanded                 // DetachIdle gets it
	phaseEnded                  // Closed and Release are called, or were
)

// A waitKind is what the connection waits for, or is about to.
type waitKind uint8

const (
	waitInput  waitKind = iota // the next request, or more of one
	waitHello                  // the whole ClientHello of TLS, or the header of a proxy; only the slot remains
	waitWorker                 // another worker, which opens it after the handshake
	waitRoom                   // room for Out, or for file
	waitTurn                   // another worker, which goes on with Out or file
)

// runState holds rarely used state of a Run, which ends with the Run.
type runState struct {
	blocking *engine.BlockingConn
}

// noticeKey tells connections apart for their Notices.
func noticeKey(fd int, gen uint32) uint64 { return uint64(fd)<<32 | uint64(gen) }

var (
	_ engine.Conn = (*conn)(nil)
	_ drive.Host  = (*conn)(nil)
)

func (c *conn) slot() *slot { return c.place.slot() }

// bind makes c the conn of the claimed connection at p.
func (c *conn) bind(d *driver, p place, fd int) {
	s := p.slot()
	word := s.word.Load()
	c.ServedBy(c)
	c.driver, c.loop, c.place, c.fd, c.gen = d, d.loops[loopIndex(word)], p, fd, generation(word)
	c.serving = d.servingAt(s.serving)
	c.writeTimeout = int64(s.writeTimeout) * int64(time.Millisecond)
	switch {
	case word&flagFresh != 0:
		return
	case word&flagHandshake != 0:
		c.phase, c.wait = phaseAdmitted, waitHello
		return
	}
	c.phase = phaseOpen
	if word&flagTLS != 0 {
		c.bindTLS()
		return
	}
	c.isUsual = true
}

// rebind is bind for a conn that has come to rest with its worker. The result false means that
// the connection differs in more than its slot, and nothing is changed.
func (c *conn) rebind(p place, fd int) bool {
	s := p.slot()
	word := s.word.Load()
	if word&(flagFresh|flagHandshake|flagTLS) != 0 || c.driver.servingAt(s.serving) != c.serving {
		return false
	}
	c.place, c.fd, c.gen = p, fd, generation(word)
	c.writeTimeout = int64(s.writeTimeout) * int64(time.Millisecond)
	return true
}

// rest makes c, whose connection isUsual and sleeps, ready for rebind. It changes what
// requests have left, which is less than reset does. The worker's buffers stay, until the worker
// lends them to another conn, or has others.
func (c *conn) rest() {
	w := c.worker
	c.keepGrown(w)
	if cap(c.Out) == 0 || &c.Out[:1][0] != &w.output.B[:1][0] {
		c.Out, w.lent = nil, nil
	}
	if c.Unread != nil {
		c.Unread = nil
	}
	c.Can, c.connMarks = 0, connMarks{}
	if invariants.Enabled {
		c.checkRest()
	}
}

// checkRest panics if rest has left something that another connection must not find.
func (c *conn) checkRest() {
	kept := connState{
		State: c.State, driver: c.driver, loop: c.loop, place: c.place, fd: c.fd, gen: c.gen, serving: c.serving, worker: c.worker,
		phase: phaseOpen, deadline: c.deadline, writeTimeout: c.writeTimeout, isUsual: true,
	}
	if c.Protocol != nil || c.Can != 0 || c.After != engine.Read || c.IsFed || c.IsPartial || c.Err != nil ||
		!reflect.DeepEqual(c.connState, kept) {
		panic("sluice: something of a connection is left")
	}
}

// reset clears c for another connection. The atomic fields stay: late events for
// the last connection may still look at them. So does a Protocol that sleeps.
func (c *conn) reset() {
	c.forgetReused()
	c.connState = connState{}
}

// forgetReused is called when Protocol is no more.
func (c *conn) forgetReused() {
	if c.isReused {
		c.retired, c.isReused = retired{}, false
	}
}

// isBlocked reports whether Out, or file, waits.
func (c *conn) isBlocked() bool { return c.wait >= waitRoom }

// attach lends the worker's buffers to c.
func (c *conn) attach(w *worker) {
	c.worker, w.lent = w, c
	size := c.driver.options.ReadBufferSize
	if w.input == nil {
		w.input = buf.Get(size)
	}
	c.In = w.input.B[:size]
	if w.output == nil {
		w.output = buf.Get(firstOutputSize)
	}
	if c.pendingOut == nil {
		c.Out = w.output.B[:0]
	}
}

// releaseBuffers releases the buffers for a wait in which they are not needed. The worker and c
// have none until attach.
func (c *conn) releaseBuffers() {
	c.In, c.Out = nil, nil
	c.worker.dropBuffers()
}

// detach returns the buffers to the worker, except those that the connection needs
// while it waits.
func (c *conn) detach() {
	w := c.worker
	c.worker, c.In = nil, nil
	if len(c.Unread) > 0 && c.pendingIn == nil {
		c.pendingIn = buf.Get(len(c.Unread))
		c.pendingIn.B = append(c.pendingIn.B, c.Unread...)
		c.Unread = c.pendingIn.B
		c.loop.held.Add(1)
	}
	switch {
	case c.pendingOut != nil:
	case len(c.Out) > 0:
		c.pendingOut, w.output = w.output, nil
		c.pendingOut.B = c.Out
		c.loop.held.Add(1)
	default:
		c.keepGrown(w)
		c.Out = nil
	}
}

// keepGrown gives a grown output buffer to the worker, up to keptOutputSize. The
// connection owns the buffer of pendingOut, so the worker must not keep that.
func (c *conn) keepGrown(w *worker) {
	if c.pendingOut != nil {
		return
	}
	if grown := cap(c.Out); grown > cap(w.output.B) && grown <= keptOutputSize {
		w.output.B = c.Out[:0]
	}
}

// wake wakes the protocol if it is asleep.
func (c *conn) wake() {
	if c.Protocol == nil {
		c.awaken()
	}
}

func (c *conn) awaken() {
	memo, arrived := c.slot().memo, int64(0)
	if c.isUsual { // only an event of the last pass, or of one before, has claimed it
		arrived = c.loop.passed.Load()
	}
	if r := &c.retired; r.serving == c.serving && r.reusable.Reuse(c, memo, arrived) {
		c.Protocol, c.Can, c.isReused = r.protocol, r.can, true
		return
	}
	c.Protocol = c.serving.waker.Wake(c, memo)
	c.Can = c.Protocol.Capabilities()
}

// show lets other goroutines find c through its place.
func (c *conn) show() {
	if c.isLent { // after Blocking it is false, and two goroutines may be here: none writes
		c.isLent = false
	}
	if !c.isShown {
		c.isShown, c.isUsual = true, false
		if !c.isReused {
			c.releaseRetired() // it may stay so for long
		}
		c.place.conn().Store(c)
	}
}

func (c *conn) hide() {
	if c.isShown {
		c.leavePlace()
	}
}

func (c *conn) leavePlace() {
	c.isShown = false
	c.place.conn().Store(nil)
}

// LocalAddr implements engine.Conn.
func (c *conn) LocalAddr() net.Addr {
	if c.finalView != nil {
		return c.finalView.LocalAddr() // another connection may have the descriptor
	}
	if _, local := c.place.proxied().Addrs(); local != nil {
		return local
	}
	return c.driver.localAddr(c.fd, c.serving)
}

// RemoteAddr implements engine.Conn.
func (c *conn) RemoteAddr() net.Addr {
	if remote, _ := c.proxied().Addrs(); remote != nil {
		return remote
	}
	return c.serving.remoteAddr(c.remote())
}

// RemoteAddrPort is RemoteAddr without memory for it. It is valid only if the peer is on TCP.
func (c *conn) RemoteAddrPort() netip.AddrPort {
	if remote, _ := c.proxied().Addrs(); remote != nil {
		tcp, _ := remote.(*net.TCPAddr)
		return tcp.AddrPort() // of nil, it is not valid
	}
	return c.remote()
}

// proxied returns what a proxy has said of the connection, nil if that is nothing.
func (c *conn) proxied() *engine.Proxied {
	if c.finalView != nil {
		return c.finalView.proxied
	}
	return c.place.proxied()
}

// remote returns the peer's address.
func (c *conn) remote() netip.AddrPort {
	if c.finalView != nil {
		return c.finalView.remote // another connection may have the slot
	}
	return c.slot().remote()
}

// NetConn implements engine.Conn.
func (c *conn) NetConn() net.Conn {
	if s := c.tlsConn; s != nil {
		if s.view == nil {
			s.view = &tlsNetConn{c.netConn(), s.stater()}
		}
		return s.view
	}
	return c.netConn()
}

// netConn returns the net.Conn of the bare socket.
func (c *conn) netConn() *netConn {
	if c.view == nil {
		c.isUsual, c.isLent = false, false
		view := c.describe()
		c.view = &view
	}
	return c.view
}

// describe returns a netConn.
func (c *conn) describe() netConn {
	return netConn{driver: c.driver, serving: c.serving, fd: int32(c.fd), gen: c.gen, remote: c.remote(), proxied: c.proxied()}
}

// IsSocket implements engine.Conn.
func (c *conn) IsSocket() bool { return c.tlsConn == nil }

// CanMove implements engine.Conn.
func (c *conn) CanMove() bool {
	s := c.tlsConn
	return s == nil || s.compact != nil && s.compact.Facts().CanSave()
}

// Prompter implements engine.Conn.
func (c *conn) Prompter() engine.Prompter { return &prompter{c.driver, c.fd, c.gen} }

// prompter implements engine.Prompter for one connection.
type prompter struct {
	driver *driver
	fd     int
	gen    uint32
}

// Prompt implements engine.Prompter.
func (p *prompter) Prompt() { p.driver.deliver(p.fd, p.gen, flagPrompt) }

// ReadInRun implements drive.Host.
func (c *conn) ReadInRun(p []byte) (int, error) {
	c.dropHeld() // it is empty, or Fill has copied it
	return c.readWaiting(p)
}

// readWaiting reads from the socket, or TLS, and waits for input.
func (c *conn) readWaiting(p []byte) (int, error) {
	if c.tlsConn != nil {
		n, err := c.tlsConn.session.Read(p)
		if n > 0 {
			return n, nil
		}
		return 0, err
	}
	return c.recvWaiting(p)
}

// recvWaiting reads from the socket and waits for input.
func (c *conn) recvWaiting(p []byte) (int, error) {
	for {
		c.slot().take(flagInput) // what comes after the read sets it again
		n, errno := c.driver.source.Recv(c.fd, p)
		switch {
		case n > 0:
			c.isDrained = n < len(p)
			return n, nil
		case errno == 0:
			return 0, io.EOF
		case errno != syscall.EAGAIN:
			return 0, os.NewSyscallError("recv", errno)
		}
		if err := c.awaitInput(); err != nil {
			return 0, err
		}
	}
}

// Write implements engine.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.tlsConn != nil {
		return c.tlsConn.session.Write(p)
	}
	return c.sendWaiting(p)
}

// sendWaiting writes p to the socket and waits for room.
func (c *conn) sendWaiting(p []byte) (int, error) {
	limit, isLimited := int64(0), false
	for n := 0; ; {
		sent, errno := c.driver.source.Send(c.fd, p[n:], false)
		n += sent
		switch {
		case n == len(p):
			return n, nil
		case errno == 0:
			continue
		case errno != syscall.EAGAIN:
			return n, os.NewSyscallError("send", errno)
		}
		if !isLimited {
			limit, isLimited = c.writeDeadline(), true
		}
		if err := c.awaitRoom(limit); err != nil {
			return n, err
		}
	}
}

// gatherSize is the size up to which output is gathered for one TLS record.
const gatherSize = 16 << 10

// WriteBuffers implements engine.Conn.
func (c *conn) WriteBuffers(v *net.Buffers) (int64, error) {
	if c.tlsConn != nil {
		return c.tlsConn.writeBuffers(v)
	}
	var written int64
	limit, isLimited := int64(0), false
	for {
		n, errno := c.driver.source.SendBuffers(c.fd, v)
		written += n
		switch {
		case errno == 0 && len(*v) == 0:
			return written, nil
		case errno == 0:
			continue
		case errno != syscall.EAGAIN:
			return written, os.NewSyscallError("sendmsg", errno)
		}
		if !isLimited {
			limit, isLimited = c.writeDeadline(), true
		}
		if err := c.awaitRoom(limit); err != nil {
			return written, err
		}
	}
}

// WriteReady implements engine.Conn.
func (c *conn) WriteReady(v *net.Buffers) int64 {
	if c.tlsConn != nil {
		return 0
	}
	n, _ := c.driver.source.SendBuffers(c.fd, v)
	return n
}

// SetReadDeadline implements engine.Conn.
func (c *conn) SetReadDeadline(now int64, timeout time.Duration) {
	c.isDated = true
	if timeout <= 0 || timeout > longestWait {
		c.deadline = 0
		return
	}
	c.deadline = deadlineOf(now, timeout)
}

// readDeadline returns the deadline for waiting for input, 0 for none.
func (c *conn) readDeadline() int64 {
	if !c.isDated {
		c.deadline, c.isDated = nanosOf(c.slot().expiry.Load(), clock.Nanos()), true
	}
	return c.deadline
}

// SetWriteTimeout implements engine.Conn.
func (c *conn) SetWriteTimeout(timeout time.Duration) {
	if timeout < 0 || timeout > longestWait {
		timeout = 0
	}
	c.writeTimeout = int64(timeout)
	if c.finalView != nil {
		return // another connection may have the slot
	}
	c.slot().writeTimeout = uint32((timeout + time.Millisecond - 1) / time.Millisecond)
}

// writeDeadline returns the deadline for a write that blocks now, 0 for none.
func (c *conn) writeDeadline() int64 {
	if c.writeTimeout == 0 {
		return 0
	}
	return clock.Nanos() + c.writeTimeout
}

// OnPeerGone implements engine.Conn.
func (c *conn) OnPeerGone(f func()) {
	c.endWatch()
	if f == nil {
		return
	}
	c.isWatched = true
	key := noticeKey(c.fd, c.gen)
	c.gone.SetFor(key, f)
	isLent := c.isUsual || c.isLent
	if c.show(); isLent { // after Blocking it is false, and stays so without a write; see show
		c.isLent = true
	}
	s := c.slot()
	if !s.has(flagWatch) && c.add() == nil {
		s.set(flagWatch)
	}
	// If the peer goes after this, the loop sees flagWatch. If the loop has set
	// flagGone before, the notice is fired here.
	if s.has(flagGone) {
		go c.gone.FireFor(key)
	}
}

// runState returns c.run, and makes it if it is nil.
func (c *conn) runState() *runState {
	if c.run == nil {
		c.isUsual, c.isLent = false, false
		c.run = &runState{}
	}
	return c.run
}

// Blocking implements engine.Conn.
func (c *conn) Blocking() net.Conn {
	run := c.runState()
	if run.blocking == nil {
		// Two goroutines may use it concurrently, so the preparations for their
		// waits are made here.
		c.show()
		c.readDeadline()
		_ = c.add()
		g := &blockingConn{conn: c, addresses: c.netConn(), signals: c.waiters()}
		run.blocking = engine.NewBlockingConn(g, g.addresses)
	}
	return run.blocking
}

// BeginRun implements drive.Host. Reads and writes of the Run wait.
func (c *conn) BeginRun() {
	if c.tlsConn != nil {
		c.tlsConn.waits = true
	}
}

// EndRun implements drive.Host. It ends the notice and the blocking connection.
func (c *conn) EndRun(next engine.Next) (after engine.Next, isMuch bool) {
	if !c.isUsual { // otherwise it is neither watched nor has a runState
		next = c.endRun(next)
	}
	if c.slot().has(flagKill) {
		c.Fail(c.driver.killCause())
		return engine.Abort, false
	}
	return next, next != engine.Abort && (len(c.Out) >= c.driver.options.FlushSize || c.hasFile())
}

func (c *conn) endRun(next engine.Next) engine.Next {
	c.endWatch()
	if c.isLent {
		c.hide()
		c.isUsual, c.isLent = true, false
		return next
	}
	if run := c.run; run != nil {
		if run.end() && next != engine.Detach && next != engine.CloseLinger && next != engine.Abort {
			next = engine.Close
		}
		c.run = nil
	}
	if c.tlsConn != nil {
		c.tlsConn.waits = false
	}
	return next
}

// endWatch ends the notice of c's Run. flagWatch stays.
func (c *conn) endWatch() {
	if c.isWatched {
		c.isWatched = false
		c.gone.Cancel()
	}
}

// end ends the blocking connection of a Run, and reports whether the handler has closed the
// connection.
func (r *runState) end() (wasClosed bool) {
	if r.blocking == nil {
		return false
	}
	r.blocking.Sever()
	return r.blocking.IsClosed()
}
