package websocket

import (
	"context"
	"io"
	"math"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// beginFlush lets another goroutine write the output of a call that is still running,
// because it has become much. The lock is held, and run is running.
func (s *session) beginFlush() {
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
		s.wrote(out, err)
		if s.conn.more.pending == nil || s.flushed != nil || s.ending == endAbort {
			break
		}
		s.take(flushSize)
		out = s.out
		s.out = nil
		s.count(0, len(out))
		mu.Unlock()
	}
	s.endFlush()
	mu.Unlock()
}

// endFlush ends flushing; the lock is held.
func (s *session) endFlush() {
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
		l.poke()
	}
}

// sendMeanwhile sends the output of a loop: as much as goes without waiting, and the rest on
// another goroutine, so that the session can read for the loop. run is running; the lock is
// held, but not while the engine writes.
func (s *session) sendMeanwhile() {
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
		if !s.isCarried { // a stream of HTTP/2 cannot fill
			s.loop.reads = s.engine.Blocking()
		}
		go s.flush(out, gone)
		mu.Lock()
		return
	}
	mu.Lock()
	s.wrote(out, nil)
	s.endFlush()
}

// minDirect is the size of a payload that is sent from where it is. Smaller ones are
// copied, so that several are sent with one system call.
const minDirect = 16 << 10

// direct is what sendNow passes to the engine.
type direct struct {
	head   [ws.MaxHead]byte
	pieces [3][]byte
	left   net.Buffers
}

// sendNow sends the output and then a frame, as far as they go without waiting, so that p
// is not copied. The rest becomes output. run is running; the lock is held, but not while
// the engine writes.
func (s *session) sendNow(h ws.Head, p []byte) {
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
	s.take(math.MaxInt) // what other goroutines have written meanwhile
	*d = direct{}
	directPool.Put(d)
	s.conn.more.makeRoom()
	s.endFlush()
}

// wrote ends a write of out during a call. The lock is held.
func (s *session) wrote(out []byte, err error) {
	if s.out == nil {
		s.out = out[:0]
	}
	if err != nil {
		s.note(err)
		s.end(endAbort)
	}
	s.conn.more.makeRoom()
}

// offer sends m, or does what policy says; the lock is held.
func (c *Conn) offer(m *message, policy SlowPolicy) error {
	if c.phase != phaseOpen {
		return c.ended()
	}
	if policy == SlowCoalesce && m.shared != nil && m.shared.key != "" && c.queue() != nil &&
		c.queue().replace(m.shared, m.isPacked, c.host.maxPending) {
		c.dropped(1)
		return nil
	}
	if c.hasRoom(m.size()) {
		c.append(m)
		return nil
	}
	switch policy {
	case SlowBlock:
		return ErrFull
	case SlowDropOld:
		if o := c.queue(); o != nil {
			c.dropped(o.dropOldest(m.size(), c.host.maxPending))
			if c.hasRoom(m.size()) {
				c.append(m)
				return nil
			}
		}
		fallthrough
	case SlowDropNew:
		c.dropped(1)
		return ErrFull
	}
	if o := c.queue(); o != nil {
		c.dropped(o.dropMessages())
	}
	c.close(&CloseError{Code: CodeTryAgain, Reason: "too slow"})
	return ErrFull
}

// dropped counts dropped messages; the lock is held.
func (c *Conn) dropped(n int) {
	if n > 0 {
		c.lock().dropped += uint64(n)
		c.extra().rarely().dropped += uint64(n)
	}
}

// Dropped returns how many messages were dropped because the peer is slow; see SlowPolicy.
// After the end of the connection it is 0.
func (c *Conn) Dropped() uint64 {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.more == nil || c.more.rare() == nil {
		return 0
	}
	return c.more.rare().dropped
}

// append makes frames of m and passes them on; the lock is held.
func (c *Conn) append(m *message) {
	c.lock().sent++
	if w := c.writing(); w != nil {
		w.hold(m)
		return
	}
	switch {
	case m.packed != nil:
		c.packedIsSent(m)
		c.appendFrame(ws.Head{Opcode: ws.Opcode(m.kind), IsDeflated: true}, m.packed.B)
		return
	case m.shared == nil:
		c.appendFrame(ws.Head{Opcode: ws.Opcode(m.kind)}, m.p)
		return
	}
	if m.isPacked {
		c.forgetSent()
	}
	e := c.extra()
	if s := e.inCall(); s != nil {
		s.out = append(s.out, m.shared.bytes(m.isPacked)...)
		e.pokeLoop()
		return
	}
	c.waiting(e).addShared(m.shared, m.isPacked)
}

// appendFrame appends a frame with p to what waits, and makes the engine send it. h is its
// head, without the length; the lock is held, but for a while not if p has minDirect bytes.
func (c *Conn) appendFrame(h ws.Head, p []byte) {
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	e := c.extra()
	if s := e.inCall(); s != nil {
		if len(p) >= minDirect && !h.IsMasked {
			s.sendNow(h, p)
		} else {
			s.out = ws.AppendWhole(s.out, h, p)
		}
		e.pokeLoop()
		return
	}
	c.waiting(e).add(h, p)
}

// inCall returns the session of a call that sends what is appended to its output; nil: frames
// go to the outbox. The lock is held.
func (m *extra) inCall() *session {
	if s := m.session; s != nil && s.run == running && m.pending == nil {
		return s
	}
	return nil
}

// waiting returns the outbox, which is about to get a frame. If there was none, the engine
// is prompted to send it; the lock is held.
func (c *Conn) waiting(e *extra) *outbox {
	if e.pending != nil {
		return e.pending
	}
	e.pending = acquireOutbox(&c.host.pendingTotal)
	if c.target.Generation != 0 {
		c.host.server.Prompt(c.target)
	} else {
		e.apart.prompter.Prompt()
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
		if err := c.mayWrite(ctx); err != nil {
			return nil, err
		}
		r := c.extra().rarely()
		if r.writer == nil {
			r.writer = &writer{conn: c, ctx: ctx, opcode: ws.Opcode(k)}
			return r.writer, nil
		}
		if err := c.awaitRoom(ctx); err != nil {
			return nil, err
		}
	}
}

// mayWrite returns why nothing can be sent; nil: it can. The lock is held.
func (c *Conn) mayWrite(ctx context.Context) error {
	if c.phase != phaseOpen {
		return c.ended()
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
		switch err := c.mayWrite(w.ctx); {
		case w.isClosed:
			return n, io.ErrClosedPipe
		case err != nil:
			w.err = err
		case c.hasOutputRoom(len(part)):
			w.send(part, false)
			n += len(part)
		default:
			w.err = c.awaitRoom(w.ctx)
		}
	}
	return n, w.err
}

// send sends a fragment; the lock is held.
func (w *writer) send(p []byte, isFinal bool) {
	c := w.conn
	h := ws.Head{Opcode: w.opcode, IsFinal: isFinal}
	if w.opcode != ws.OpContinuation {
		c.lock().sent++
		w.opcode = ws.OpContinuation
	}
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	e := c.extra()
	if s := e.inCall(); s != nil {
		s.out = ws.AppendPart(s.out, h, p)
		e.pokeLoop()
		return
	}
	c.waiting(e).addPart(h, p, waitingControl)
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
		return c.ended()
	}
	w.isClosed = true
	isBegun := c.writing() == w
	switch {
	case w.err != nil && isBegun:
		c.close(&CloseError{Code: CodeInternal, Reason: "a message is not complete"})
		return w.err
	case w.err == nil:
		w.send(nil, true)
	}
	w.end()
	return w.err
}

// end lets the messages go that have waited; the lock is held.
func (w *writer) end() {
	e, o := w.conn.more, w.queued
	e.rare().writer, w.queued = nil, nil
	if o != nil {
		if s := e.inCall(); s != nil {
			s.out, _ = o.take(s.out, math.MaxInt)
			e.pokeLoop()
		} else {
			w.conn.waiting(e).adopt(o)
		}
		releaseOutbox(o)
	}
	e.makeRoom()
}

// hold makes a message wait for the end of this one; the lock is held.
func (w *writer) hold(m *message) {
	c := w.conn
	if w.queued == nil {
		w.queued = acquireOutbox(&c.host.pendingTotal)
	}
	if m.shared != nil {
		if m.isPacked {
			c.forgetSent()
		}
		w.queued.addShared(m.shared, m.isPacked)
		return
	}
	h, p := ws.Head{Opcode: ws.Opcode(m.kind)}, m.p
	if m.packed != nil {
		c.packedIsSent(m)
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
	w := message{kind: k, p: p}
	c.pack(&w)
	defer w.release()
	mu := c.lock()
	mu.Lock()
	for {
		switch {
		case c.phase != phaseOpen:
			defer mu.Unlock()
			return c.ended()
		case !c.fits(&w):
			mu.Unlock()
			c.pack(&w)
			mu.Lock()
			continue
		case c.hasRoom(w.size()):
			c.append(&w)
			mu.Unlock()
			return nil
		}
		if err := c.awaitRoom(ctx); err != nil {
			mu.Unlock()
			return err
		}
	}
}

// awaitRoom waits for room, or for the end of a Writer or of the connection. The lock is held,
// but not while it waits.
func (c *Conn) awaitRoom(ctx context.Context) error {
	m, mu := c.extra(), c.lock()
	if m.room == nil {
		m.room = make(chan struct{})
	}
	room := m.room
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
	if !c.fits(&m) {
		c.lock().Unlock()
		c.pack(&m)
		c.lock().Lock()
	}
	return c.offer(&m, c.host.Endpoint.Slow)
}

// hasRoom tells whether a message of size bytes may wait; the lock is held.
func (c *Conn) hasRoom(size int) bool {
	w := c.writing()
	if w == nil {
		return c.hasOutputRoom(size)
	}
	held := 0
	if w.queued != nil {
		held = w.queued.bytes
	}
	return (held == 0 || held+size <= c.host.maxPending) && c.host.pendingTotal.fits(held, size)
}

// hasOutputRoom tells whether size more bytes may wait for the peer; the lock is held.
func (c *Conn) hasOutputRoom(size int) bool {
	m := c.more
	if m == nil {
		return true
	}
	limit := c.host.maxPending
	if m.pending != nil {
		return m.pending.bytes+size <= limit && c.host.pendingTotal.fits(m.pending.bytes, size)
	}
	s := m.inCall()
	if s != nil && (len(s.out) == 0 || len(s.out)+size <= limit) {
		return true
	}
	if !c.host.pendingTotal.fits(0, size) {
		return false
	}
	if s != nil && m.loop() == nil {
		s.beginFlush()
	} else if s != nil {
		c.waiting(m) // its call sends the output first
	}
	return true
}

// dropOutbox drops what waits; the lock is held.
func (m *extra) dropOutbox() {
	if m.pending != nil {
		releaseOutbox(m.pending)
		m.pending = nil
	}
}

// dropBehind drops the messages that wait for the end of another; the lock is held.
func (m *extra) dropBehind() {
	if m.rare() == nil || m.rare().writer == nil {
		return
	}
	if w := m.rare().writer; w.queued != nil {
		releaseOutbox(w.queued)
		w.queued = nil
	}
}

// makeRoom wakes the writers that wait for room; the lock is held.
func (m *extra) makeRoom() {
	if m.room != nil {
		close(m.room)
		m.room = nil
	}
}

// Pending returns how many bytes wait to be sent. Those that the system has taken do not
// count.
func (c *Conn) Pending() int {
	c.lock().Lock()
	defer c.lock().Unlock()
	m, n := c.more, 0
	if m == nil {
		return 0
	}
	if m.pending != nil {
		n = m.pending.bytes
	}
	if m.session != nil {
		n += len(m.session.out)
	}
	if w := c.writing(); w != nil && w.queued != nil {
		n += w.queued.bytes
	}
	return n
}

// hasOutput reports whether there is output. If not, it takes some from the outbox. The lock
// is held.
func (s *session) hasOutput() bool {
	if len(s.out) == 0 {
		s.take(flushSize)
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
	return c.offer(&m, c.host.Endpoint.Slow)
}

// flushSize is the size of pending output from which the session lets the engine send it
// before it handles more input.
const flushSize = 32 << 10

// take moves frames from the outbox to the output, until that has limit bytes. The lock is
// held.
func (s *session) take(limit int) {
	m := s.conn.more
	if m.pending == nil {
		return
	}
	var hasMore bool
	if s.out, hasMore = m.pending.take(s.out, limit); !hasMore {
		m.dropOutbox()
	}
}

// awaitFlush waits until no other goroutine writes output; the lock is held, but not while it
// waits.
func (s *session) awaitFlush() {
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
	if !s.isCarried {
		s.host.server.Count(read, written)
	}
}

// countSent counts n messages of a broadcast.
func (c *Conn) countSent(n int) {
	c.lock().Lock()
	defer c.lock().Unlock()
	c.lock().sent += uint64(n)
}
