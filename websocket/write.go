package websocket

import (
	"context"
	"io"
	"math"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// beginFlushLocked lets another goroutine write the output of a call that is still running,
// because it has become much. run is running.
func (s *session) beginFlushLocked() {
	out, written := s.out, len(s.out)-s.counted
	s.out, s.counted = nil, 0
	s.run = flushing
	s.count(0, written)
	go s.flush(out, 0)
}

// flush writes what follows the first bytes of out, which have gone, and then what waits in
// the outbox, until that is empty or the call is about to return. Nothing else writes to the
// engine's Conn meanwhile: the call of the engine is in a callback, reads for a loop, or waits
// in leave.
func (s *session) flush(out []byte, gone int) {
	mu := s.conn.lock()
	for {
		_, err := s.engine.Write(out[gone:])
		gone = 0
		mu.Lock()
		s.wroteLocked(out, err)
		if s.conn.guarded.pending == nil || s.flushed != nil || s.ending == endAbort {
			break
		}
		s.takeLocked(flushSize)
		out = s.out
		s.out = nil
		s.count(0, len(out))
		mu.Unlock()
	}
	s.endFlushLocked()
	mu.Unlock()
}

// endFlushLocked ends flushing.
func (s *session) endFlushLocked() {
	s.run = running
	if s.flushed != nil {
		close(s.flushed)
		s.flushed = nil
	}
	if l := s.loop; l != nil {
		if l.reads != nil {
			_ = l.reads.SetReadDeadline(time.Unix(1, 0))
			l.reads = nil
		}
		l.notifyLocked()
	}
}

// sendMeanwhileLocked sends the output of a loop: as much as goes without waiting, and the
// rest on another goroutine, so that the session can read for the loop. run is running; the
// lock is not held while the engine writes.
func (s *session) sendMeanwhileLocked() {
	out, d, mu := s.out, directPool.Get().(*direct), s.conn.lock()
	d.pieces[0] = out
	d.left = d.pieces[:1]
	written := len(out) - s.counted
	s.out, s.counted, s.run = nil, 0, flushing
	mu.Unlock()
	s.count(0, written)
	gone := int(s.engine.WriteReady(&d.left))
	*d = direct{}
	directPool.Put(d)
	if gone < len(out) {
		if !s.overHTTP2 { // a stream of HTTP/2 cannot fill
			s.loop.reads = s.engine.Blocking()
		}
		go s.flush(out, gone)
		mu.Lock()
		return
	}
	mu.Lock()
	s.wroteLocked(out, nil)
	s.endFlushLocked()
}

// minDirect is the size of a payload that is sent from where it is. Smaller ones are
// copied, so that several are sent with one system call.
const minDirect = 16 << 10

// direct is what sendNowLocked passes to the engine.
type direct struct {
	head   [ws.MaxHead]byte
	pieces [3][]byte
	left   net.Buffers
}

// sendNowLocked sends the output and then a frame, as far as they go without waiting, so
// that p is not copied. The rest becomes output. run is running; the lock is not held while
// the engine writes.
func (s *session) sendNowLocked(h ws.Head, p []byte) {
	out, d := s.out, directPool.Get().(*direct)
	h.IsFinal, h.Length = true, int64(len(p))
	d.pieces = [...][]byte{out, ws.AppendHead(d.head[:0], h), p}
	d.left = d.pieces[:]
	size := len(out) - s.counted + len(d.pieces[1]) + len(p)
	s.out, s.counted, s.run = nil, 0, flushing
	mu := s.conn.lock()
	mu.Unlock()
	s.count(0, size)
	s.engine.WriteReady(&d.left)
	mu.Lock()
	later := s.out // pongs
	s.out = out[:0]
	for _, rest := range d.left {
		s.out = append(s.out, rest...)
	}
	s.counted = len(s.out)
	s.out = append(s.out, later...)
	s.takeLocked(math.MaxInt) // what other goroutines have written meanwhile
	*d = direct{}
	directPool.Put(d)
	s.conn.guarded.makeRoomLocked()
	s.endFlushLocked()
}

// wroteLocked ends a write of out during a call.
func (s *session) wroteLocked(out []byte, err error) {
	if s.out == nil {
		s.out = out[:0]
	}
	if err != nil {
		s.noteLocked(err)
		s.endLocked(endAbort)
	}
	s.conn.guarded.makeRoomLocked()
}

// offerLocked sends m, or does what policy says.
func (c *Conn) offerLocked(m *message, policy SlowPolicy) error {
	if c.phase != phaseOpen {
		return c.endedLocked()
	}
	if policy == SlowCoalesce && m.shared != nil && m.shared.key != "" && c.queueLocked() != nil &&
		c.queueLocked().replace(m.shared, m.isPacked, c.host.maxPending) {
		c.droppedLocked(1)
		return nil
	}
	if c.hasRoomLocked(m.size()) {
		c.appendLocked(m)
		return nil
	}
	switch policy {
	case SlowBlock:
		return ErrFull
	case SlowDropOld:
		if o := c.queueLocked(); o != nil {
			c.droppedLocked(o.dropOldest(m.size(), c.host.maxPending))
			if c.hasRoomLocked(m.size()) {
				c.appendLocked(m)
				return nil
			}
		}
		fallthrough
	case SlowDropNew:
		c.droppedLocked(1)
		return ErrFull
	}
	if o := c.queueLocked(); o != nil {
		c.droppedLocked(o.dropMessages())
	}
	c.closeLocked(&CloseError{Code: CodeTryAgain, Reason: "too slow"})
	return ErrFull
}

// droppedLocked counts dropped messages.
func (c *Conn) droppedLocked(n int) {
	if n > 0 {
		c.lock().dropped += uint64(n)
		c.ensureStateLocked().ensureCallsLocked().dropped += uint64(n)
	}
}

// Dropped returns how many messages were dropped because the peer is slow; see SlowPolicy.
// After the end of the connection it is 0.
func (c *Conn) Dropped() uint64 {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.guarded == nil || c.guarded.calls == nil {
		return 0
	}
	return c.guarded.calls.dropped
}

// appendLocked makes frames of m and passes them on.
func (c *Conn) appendLocked(m *message) {
	c.lock().sent++
	if w := c.writingLocked(); w != nil {
		w.holdLocked(m)
		return
	}
	switch {
	case m.packed != nil:
		c.packedIsSentLocked(m)
		c.appendFrameLocked(ws.Head{Opcode: ws.Opcode(m.kind), IsDeflated: true}, m.packed.B)
		return
	case m.shared == nil:
		c.appendFrameLocked(ws.Head{Opcode: ws.Opcode(m.kind)}, m.p)
		return
	}
	if m.isPacked {
		c.forgetSentLocked()
	}
	e := c.ensureStateLocked()
	if s := e.inCallLocked(); s != nil {
		s.out = append(s.out, m.shared.bytes(m.isPacked)...)
		e.notifyLoopLocked()
		return
	}
	c.waitingLocked(e).addShared(m.shared, m.isPacked)
}

// appendFrameLocked appends a frame with p to what waits, and makes the engine send it. h is its
// head, without the length; if p has minDirect bytes, it does not hold
// the lock for a while.
func (c *Conn) appendFrameLocked(h ws.Head, p []byte) {
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	e := c.ensureStateLocked()
	if s := e.inCallLocked(); s != nil {
		if len(p) >= minDirect && !h.IsMasked {
			s.sendNowLocked(h, p)
		} else {
			s.out = ws.AppendWhole(s.out, h, p)
		}
		e.notifyLoopLocked()
		return
	}
	c.waitingLocked(e).add(h, p)
}

// inCallLocked returns the session of a call that sends what is appended to its output; nil:
// frames go to the outbox.
func (m *connState) inCallLocked() *session {
	if s := m.session; s != nil && s.run == running && m.pending == nil {
		return s
	}
	return nil
}

// waitingLocked returns the outbox, which is about to get a frame. If there was none, the
// engine is prompted to send it.
func (c *Conn) waitingLocked(e *connState) *outbox {
	if e.pending != nil {
		return e.pending
	}
	e.pending = acquireOutbox(&c.host.pendingTotal)
	if c.target.Generation != 0 {
		c.host.server.Prompt(c.target)
	} else {
		e.identity.prompter.Prompt()
	}
	return e.pending
}

// maxFragment is the largest payload of a frame of a Writer.
const maxFragment = 16 << 10

// Writer begins a message that is sent while it is written: each call of Write sends its
// bytes in one fragment or more, of at most 16 KiB, and copies them. While MaxPending bytes
// wait for the peer, Write waits. Close ends the message and must be called; it does not wait.
// Wrap a bufio.Writer around w for many small writes. The message is not compressed. Of a Text,
// the whole must be UTF-8.
//
// A connection has one open Writer at a time: the next call of Writer waits. Other messages
// never come into the middle of this one: from its first fragment on they wait for its end, and
// count for MaxPending, so that Slow applies to them when there is no more room. Do not leave a
// Writer open. Control frames are sent meanwhile, such as pings.
//
// ctx is for all calls of w. If it ends, Write returns its error after it has sent whole
// fragments only; so Close ends the connection with CodeInternal, unless nothing was sent.
// One goroutine may use w at a time.
func (c *Conn) Writer(ctx context.Context, k Kind) (w io.WriteCloser, err error) {
	if k != Text && k != Binary {
		return nil, ErrKind
	}
	mu := c.lock()
	mu.Lock()
	defer mu.Unlock()
	for {
		if err := c.mayWriteLocked(ctx); err != nil {
			return nil, err
		}
		r := c.ensureStateLocked().ensureCallsLocked()
		if r.writer == nil {
			r.writer = &writer{conn: c, ctx: ctx, opcode: ws.Opcode(k)}
			return r.writer, nil
		}
		if err := c.awaitRoomLocked(ctx); err != nil {
			return nil, err
		}
	}
}

// mayWriteLocked returns why nothing can be sent; nil: it can.
func (c *Conn) mayWriteLocked(ctx context.Context) error {
	if c.phase != phaseOpen {
		return c.endedLocked()
	}
	return ctx.Err()
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (n int, err error) {
	c := w.conn
	c.lock().Lock()
	defer c.lock().Unlock()
	for n < len(p) && w.err == nil {
		part := p[n:min(len(p), n+maxFragment)]
		switch err := c.mayWriteLocked(w.ctx); {
		case w.isClosed:
			return n, io.ErrClosedPipe
		case err != nil:
			w.err = err
		case c.hasOutputRoomLocked(len(part)):
			w.sendLocked(part, false)
			n += len(part)
		default:
			w.err = c.awaitRoomLocked(w.ctx)
		}
	}
	return n, w.err
}

// sendLocked sends a fragment.
func (w *writer) sendLocked(p []byte, isFinal bool) {
	c := w.conn
	h := ws.Head{Opcode: w.opcode, IsFinal: isFinal}
	if w.opcode != ws.OpContinuation {
		c.lock().sent++
		w.opcode = ws.OpContinuation
	}
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	e := c.ensureStateLocked()
	if s := e.inCallLocked(); s != nil {
		s.out = ws.AppendPart(s.out, h, p)
		e.notifyLoopLocked()
		return
	}
	c.waitingLocked(e).addPart(h, p, waitingControl)
}

// Close implements io.Closer.
func (w *writer) Close() error {
	c := w.conn
	c.lock().Lock()
	defer c.lock().Unlock()
	switch {
	case w.isClosed:
		return io.ErrClosedPipe
	case c.phase != phaseOpen:
		w.isClosed = true
		return c.endedLocked()
	}
	w.isClosed = true
	isBegun := c.writingLocked() == w
	switch {
	case w.err != nil && isBegun:
		c.closeLocked(&CloseError{Code: CodeInternal, Reason: "a message is not complete"})
		return w.err
	case w.err == nil:
		w.sendLocked(nil, true)
	}
	w.endLocked()
	return w.err
}

// endLocked lets the messages go that have waited.
func (w *writer) endLocked() {
	e, o := w.conn.guarded, w.queued
	e.calls.writer, w.queued = nil, nil
	if o != nil {
		if s := e.inCallLocked(); s != nil {
			s.out, _ = o.take(s.out, math.MaxInt)
			e.notifyLoopLocked()
		} else {
			w.conn.waitingLocked(e).adopt(o)
		}
		releaseOutbox(o)
	}
	e.makeRoomLocked()
}

// holdLocked makes a message wait for the end of this one.
func (w *writer) holdLocked(m *message) {
	c := w.conn
	if w.queued == nil {
		w.queued = acquireOutbox(&c.host.pendingTotal)
	}
	if m.shared != nil {
		if m.isPacked {
			c.forgetSentLocked()
		}
		w.queued.addShared(m.shared, m.isPacked)
		return
	}
	h, p := ws.Head{Opcode: ws.Opcode(m.kind)}, m.p
	if m.packed != nil {
		c.packedIsSentLocked(m)
		h.IsDeflated, p = true, m.packed.B
	}
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	w.queued.add(h, p)
}

// Write sends a message. It returns when the message is accepted, not when the peer has
// it. If MaxPending bytes wait for the peer, Write waits, at most until ctx ends: then
// nothing of the message is sent, and the connection stays open. It copies p.
func (c *Conn) Write(ctx context.Context, k Kind, p []byte) error {
	if k != Text && k != Binary {
		return ErrKind
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.out != 0 && len(p) >= minDeflated {
		return c.writePacked(ctx, k, p)
	}
	var err error
	mu := c.lock()
	mu.Lock()
	if s := c.answererLocked(); s != nil && len(p) < minDirect { // appendLocked, in fewer instructions
		mu.sent++
		s.out = ws.AppendFrame(s.out, ws.Opcode(k), p)
		c.guarded.notifyLoopLocked()
	} else {
		err = c.writeLocked(ctx, &message{kind: k, p: p})
	}
	mu.Unlock()
	return err
}

// writePacked is Write for a message that may be compressed.
func (c *Conn) writePacked(ctx context.Context, k Kind, p []byte) error {
	m := message{kind: k, p: p}
	c.pack(&m)
	defer m.release()
	c.lock().Lock()
	defer c.lock().Unlock()
	return c.writeLocked(ctx, &m)
}

// answererLocked returns the session of a call that sends the next message, as most answers are
// sent: in one frame that is not masked, and before anything else. nil: it is not so simple.
func (c *Conn) answererLocked() *session {
	e := c.guarded
	if e == nil || e.calls != nil && e.calls.writer != nil || c.phase != phaseOpen || c.host.isClient {
		return nil
	}
	if s := e.inCallLocked(); s != nil && len(s.out) == 0 {
		return s
	}
	return nil
}

// writeLocked appends m when there is room for it. It does not hold the lock while it waits.
func (c *Conn) writeLocked(ctx context.Context, m *message) (err error) {
	for err == nil {
		switch {
		case c.phase != phaseOpen:
			return c.endedLocked()
		case !c.fitsLocked(m):
			c.lock().Unlock()
			c.pack(m)
			c.lock().Lock()
		case c.hasRoomLocked(m.size()):
			c.appendLocked(m)
			return nil
		default:
			err = c.awaitRoomLocked(ctx)
		}
	}
	return err
}

// awaitRoomLocked waits for room, or for the end of a Writer or of the connection. It does
// not hold the lock while it waits.
func (c *Conn) awaitRoomLocked(ctx context.Context) error {
	calls, mu := c.ensureStateLocked().ensureCallsLocked(), c.lock()
	if calls.room == nil {
		calls.room = make(chan struct{})
	}
	room := calls.room
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryWrite is Write, but it never waits: if there is no room it does what Endpoint.Slow
// says.
func (c *Conn) TryWrite(k Kind, p []byte) error {
	if k != Text && k != Binary {
		return ErrKind
	}
	m := message{kind: k, p: p}
	c.pack(&m)
	defer m.release()
	c.lock().Lock()
	defer c.lock().Unlock()
	if !c.fitsLocked(&m) {
		c.lock().Unlock()
		c.pack(&m)
		c.lock().Lock()
	}
	return c.offerLocked(&m, c.host.Endpoint.Slow)
}

// hasRoomLocked reports whether a message of size bytes may wait.
func (c *Conn) hasRoomLocked(size int) bool {
	w := c.writingLocked()
	if w == nil {
		return c.hasOutputRoomLocked(size)
	}
	held := 0
	if w.queued != nil {
		held = w.queued.bytes
	}
	return (held == 0 || held+size <= c.host.maxPending) && c.host.pendingTotal.fits(held, size)
}

// hasOutputRoomLocked reports whether size more bytes may wait for the peer.
func (c *Conn) hasOutputRoomLocked(size int) bool {
	m := c.guarded
	if m == nil {
		return true
	}
	limit := c.host.maxPending
	if m.pending != nil {
		return m.pending.bytes+size <= limit && c.host.pendingTotal.fits(m.pending.bytes, size)
	}
	s := m.inCallLocked()
	if s != nil && (len(s.out) == 0 || len(s.out)+size <= limit) {
		return true
	}
	if !c.host.pendingTotal.fits(0, size) {
		return false
	}
	if s != nil && m.loopLocked() == nil {
		s.beginFlushLocked()
	} else if s != nil {
		c.waitingLocked(m) // its call sends the output first
	}
	return true
}

// dropOutboxLocked drops what waits.
func (m *connState) dropOutboxLocked() {
	if m.pending != nil {
		releaseOutbox(m.pending)
		m.pending = nil
	}
}

// dropBehindLocked drops the messages that wait for the end of another.
func (m *connState) dropBehindLocked() {
	if m.calls == nil || m.calls.writer == nil {
		return
	}
	if w := m.calls.writer; w.queued != nil {
		releaseOutbox(w.queued)
		w.queued = nil
	}
}

// makeRoomLocked wakes the writers that wait for room.
func (m *connState) makeRoomLocked() {
	if m.calls != nil && m.calls.room != nil {
		close(m.calls.room)
		m.calls.room = nil
	}
}

// Pending returns how many bytes wait to be sent. Those that the system has taken do not
// count.
func (c *Conn) Pending() int {
	c.lock().Lock()
	defer c.lock().Unlock()
	m, n := c.guarded, 0
	if m == nil {
		return 0
	}
	if m.pending != nil {
		n = m.pending.bytes
	}
	if m.session != nil {
		n += len(m.session.out)
	}
	if w := c.writingLocked(); w != nil && w.queued != nil {
		n += w.queued.bytes
	}
	return n
}

// hasOutputLocked reports whether there is output. If not, it takes some from the outbox.
func (s *session) hasOutputLocked() bool {
	if len(s.out) == 0 {
		s.takeLocked(flushSize)
	}
	return len(s.out) > 0
}

// shared returns p as a message for c. It may compress p, so the lock is not held.
func (c *Conn) shared(p *Prepared) message {
	if c.host.isClient { // each frame has a mask of its own
		return message{kind: p.kind, p: p.Data()}
	}
	return message{shared: p, isPacked: p.isLong(c.out) && p.pack()}
}

// WritePrepared is TryWrite for p. It does not copy p while it waits.
func (c *Conn) WritePrepared(p *Prepared) error {
	m := c.shared(p)
	c.lock().Lock()
	defer c.lock().Unlock()
	return c.offerLocked(&m, c.host.Endpoint.Slow)
}

// flushSize is the size of pending output from which the session lets the engine send it
// before it handles more input.
const flushSize = 32 << 10

// takeLocked moves frames from the outbox to the output, until that has limit bytes.
func (s *session) takeLocked(limit int) {
	m := s.conn.guarded
	if m.pending == nil {
		return
	}
	var hasMore bool
	if s.out, hasMore = m.pending.take(s.out, limit); !hasMore {
		m.dropOutboxLocked()
	}
}

// awaitFlushLocked waits until no other goroutine writes output. It does not hold the lock
// while it waits.
func (s *session) awaitFlushLocked() {
	for s.run == flushing {
		flushed := make(chan struct{})
		s.flushed = flushed
		s.conn.lock().Unlock()
		<-flushed
		s.conn.lock().Lock()
	}
}

// count counts bytes of the connection.
func (s *session) count(read, written int) {
	if !s.overHTTP2 {
		s.host.server.Count(read, written)
	}
}

// countSent counts n messages of a broadcast.
func (c *Conn) countSent(n int) {
	c.lock().Lock()
	defer c.lock().Unlock()
	c.lock().sent += uint64(n)
}
