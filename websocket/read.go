package websocket

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// end ends the loop after the connection.
func (l *loop) end(err error) {
	l.err = err
	close(l.handed)
}

// serve is the goroutine of Endpoint.Accept.
func (c *Conn) serve(f func(*Conn) error) {
	var err error
	hasReturned := false
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
		switch {
		case !hasReturned: // Goexit, or a panic
			err = &CloseError{Code: CodeInternal}
		case err == nil:
			err = &CloseError{Code: CodeNormal}
		}
		c.closeFor(err)
		c.lock().Lock()
		defer c.lock().Unlock()
		if c.guarded != nil {
			c.guarded.loopLocked().isDone = true
			c.guarded.loopLocked().notifyLocked()
		}
	}()
	err = f(c)
	hasReturned = true
}

// Read waits for the next message, in a function of Endpoint.Accept or of a connection of
// Dial. One goroutine may call it at a time. If ctx ends first, it returns ctx's error; no
// message is lost, and the connection stays open. After the end of the connection the error
// is what OnClose of another connection would get: a *CloseError, or what broke the connection.
func (c *Conn) Read(ctx context.Context) (Message, error) {
	l, err := c.ask(ctx, question{})
	if err != nil {
		return Message{}, err
	}
	return l.given.Message, nil
}

// ask waits for a message, and skips the rest of the one before; or for a part. It is in
// given then. Waiting loops are many, so ask needs little of the stack.
func (c *Conn) ask(ctx context.Context, q question) (*loop, error) {
	mu := c.lock()
	mu.Lock()
	for {
		l, err := c.questionLocked(q)
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case _, isOpen := <-l.handed:
			if !isOpen {
				return nil, l.err
			}
		case <-ctx.Done():
			if l.takeBack(mu) {
				return nil, ctx.Err()
			}
			<-l.handed // meanwhile
		}
		if !l.given.isRest || q.after != 0 {
			return l, nil
		}
		mu.Lock()
	}
}

// questionLocked tells the loop what a call wants.
func (c *Conn) questionLocked(q question) (*loop, error) {
	if c.guarded == nil || c.guarded.loopLocked() == nil {
		if c.phase >= phaseClosed {
			return nil, c.endedLocked()
		}
		return nil, ErrNoLoop
	}
	l := c.guarded.loopLocked()
	if l.reading == readAsks || q.after != 0 && q.after != l.asked {
		return nil, ErrReading
	}
	l.reading, l.question = readAsks, q
	l.asked++
	l.notifyLocked()
	return l, nil
}

// takeBack ends a question. It is false if something was handed over.
func (l *loop) takeBack(mu *shard) bool {
	mu.Lock()
	defer mu.Unlock()
	if l.reading != readAsks {
		return false
	}
	l.reading = readNot
	return true
}

// hand hands a message to the loop when Read asks for it, and waits until Read asks for the
// next one.
func (s *session) hand(l *loop, h handed) {
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	if s.isAskedLocked(l) {
		s.giveLocked(l, h)
	}
}

// isAskedLocked waits until Read asks for a message. It is false if it does not any more. It
// does not hold the lock while it waits.
func (s *session) isAskedLocked(l *loop) bool {
	s.sendUntilLocked(l, func() bool { return s.conn.phase != phaseOpen || l.reading == readAsks })
	return !l.isDone && s.conn.phase == phaseOpen
}

// giveLocked hands h to a loop that asks, and waits until it asks again. It does not hold
// the lock while it waits.
func (s *session) giveLocked(l *loop, h handed) {
	h.asked = l.asked
	l.reading = readHasOne
	l.given = h
	l.handed <- struct{}{}
	s.sendUntilLocked(l, func() bool { return l.reading == readAsks })
}

// sendUntilLocked sends what the loop writes until isOver returns true, or serve has
// returned. It does not hold the lock while it waits.
func (s *session) sendUntilLocked(l *loop, isOver func() bool) {
	mu := s.conn.lock()
	wake := s.wakerLocked()
	l.wake = wake
	defer func() { l.wake = nil }()
	for !l.isDone && !isOver() {
		if s.ending == endNot && s.run == running && s.hasOutputLocked() { // otherwise the end of flushing wakes it
			s.sendMeanwhileLocked()
			continue
		}
		mu.Unlock()
		<-wake
		mu.Lock()
	}
}

// wakerLocked returns a channel for loop.wake. Few sessions need one, and only while they have a
// message for the loop, so it is the session's, which connections share.
func (s *session) wakerLocked() chan struct{} {
	if s.waking == nil {
		s.waking = make(chan struct{}, 1)
	}
	select {
	case <-s.waking: // of the last wait
	default:
	}
	return s.waking
}

// errLeft is returned by the reader of a message after another call of Read or Reader.
var errLeft = errors.New("sluice: websocket: the message was left for the next one")

// Reader waits for the next message, as Read does, but returns when it begins. Its payload is
// read from r while it arrives, however long it is: ReadLimit and the limit of fragments do
// not apply. The rest waits in the socket, so a peer that is too fast is slowed down.
//
// r.Read returns io.EOF at the end of the message. Its other errors are those of Read; they
// may come after a part of the message. Of a Text, what has arrived is valid UTF-8, up to a
// character that is incomplete. ctx is for r, too: when it ends, r is of no use any more. The
// next call of Read or Reader skips the rest of the message, and ends the use of r.
//
// Endpoint.MessageWithin limits how long the peer may send nothing in the middle of the
// message. A message that is compressed comes when all of it has arrived, and has the limits of
// Read.
func (c *Conn) Reader(ctx context.Context) (k Kind, r io.Reader, err error) {
	l, err := c.ask(ctx, question{wantsParts: true})
	if err != nil {
		return 0, nil, err
	}
	return l.given.Kind, &reader{conn: c, ctx: ctx, part: l.given}, nil
}

// A reader is the io.Reader of a message. What it has not returned yet is in the buffer of
// the engine.
type reader struct {
	conn *Conn
	ctx  context.Context
	part handed
	err  error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for r.err == nil {
		switch n := r.take(p); {
		case n > 0 || len(p) == 0:
			return n, nil
		case r.err != nil:
		case !r.part.hasMore:
			r.err = io.EOF
		default:
			r.await()
		}
	}
	return 0, r.err
}

// await waits for the next part.
func (r *reader) await() {
	l, err := r.conn.ask(r.ctx, question{wantsParts: true, after: r.part.asked})
	if err != nil {
		r.err = err
		return
	}
	r.part = l.given
}

// take copies from the part that is there. It locks, because Close of a connection
// of Dial lets the session go on.
func (r *reader) take(p []byte) (n int) {
	c := r.conn
	c.lock().Lock()
	defer c.lock().Unlock()
	switch m := c.guarded; {
	case m == nil || m.loopLocked() == nil: // after the end
		r.err = c.endedLocked()
	case m.loopLocked().asked != r.part.asked:
		r.err = errLeft
	case len(r.part.Data) > 0 && m.loopLocked().isDone:
		r.err = ErrClosed
	default:
		n = copy(p, r.part.Data)
		r.part.Data = r.part.Data[n:]
	}
	return n
}

// beginMessage is called when a message begins, of which nothing is read yet. It waits until
// the loop asks for it: then it is known whether it wants the message in parts.
func (s *session) beginMessage(op ws.Opcode, isDeflated bool) {
	l := s.loop
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	if !s.isAskedLocked(l) || isDeflated || !l.question.wantsParts {
		return
	}
	mu.received++
	s.isInParts, s.reader.Limit, s.reader.MaxFragments = true, 0, 0
	s.giveLocked(l, handed{Message: Message{Kind: Kind(op)}, hasMore: true})
}

// handPart hands a part of a message to its reader.
func (s *session) handPart(p ws.Piece) {
	if len(p.Payload) > 0 || p.IsLast {
		s.hand(s.loop, handed{Message: Message{Kind: Kind(p.Opcode), Data: p.Payload}, isRest: true, hasMore: !p.IsLast})
	}
	if p.IsLast {
		s.isInParts, s.reader.Limit, s.reader.MaxFragments = false, s.host.readLimit, s.host.maxFragments
	}
}

const (
	// minRoom is the smallest part of a message that is worth a read of its own. Less is
	// copied from the buffer of the engine, which reads what follows with it.
	minRoom = 4 << 10
	// wholeRoom is the size of the engine's buffer: a smaller room would cost more reads,
	// unless the frame ends with it.
	wholeRoom = 16 << 10
	// aheadFactor and freelyAhead bound the memory that a message has before it arrives.
	aheadFactor = 7
	freelyAhead = 1 << 20
)

func (f *fed) isNothing() bool { return f.opcode == ws.OpContinuation && f.error == nil }

// Room lends the engine the buffer of a message that is incomplete; see engine.Receiver.
// Without it, what has arrived is in the engine's buffer, and Run copies it.
func (s *session) Room() []byte {
	missing := s.reader.Missing()
	if s.partial == nil || missing < minRoom {
		return nil
	}
	have, enough := len(s.partial.B), int(min(missing, wholeRoom))
	if cap(s.partial.B) < have+enough {
		larger := capacityFor(have, missing)
		if larger < have+enough {
			return nil
		}
		s.partial = enlarged(s.partial, larger)
	}
	return s.partial.B[have:min(int64(cap(s.partial.B)), int64(have)+missing)]
}

// Feed takes what was read into the room. It leaves everything else to Run, because
// callbacks may block.
func (s *session) Feed(in []byte) (used int, next engine.Next) {
	b := s.partial
	if b == nil || len(b.B) == cap(b.B) || &in[0] != &b.B[:len(b.B)+1][len(b.B)] {
		return 0, engine.Run
	}
	b.B = b.B[:len(b.B)+len(in)]
	_, p, err := s.reader.Next(in) // a part of one frame
	s.read += len(in)
	if err == nil && !p.IsLast {
		return len(in), engine.Read
	}
	s.fed = fed{p.Opcode, p.IsDeflated, err}
	return len(in), engine.Run
}

// handleFed handles what Feed has found.
func (s *session) handleFed() {
	f := s.fed
	s.fed = fed{}
	switch {
	case f.isNothing():
	case f.error != nil:
		s.violated(f.error.(*ws.Error))
	default:
		s.receivePartial(f.opcode, f.isDeflated)
	}
}

// handlePiece handles a part of a message. One that is whole stays where the engine has
// read it.
func (s *session) handlePiece(p ws.Piece) {
	if s.isInParts {
		s.handPart(p)
		return
	}
	if p.IsFirst && p.IsLast {
		s.receive(p.Opcode, p.IsDeflated, p.Payload)
		return
	}
	s.partial = grown(s.partial, len(p.Payload), s.reader.Missing())
	s.partial.B = append(s.partial.B, p.Payload...)
	if p.IsLast {
		s.receivePartial(p.Opcode, p.IsDeflated)
	}
}

// receivePartial passes on the message in s.partial.
func (s *session) receivePartial(op ws.Opcode, isDeflated bool) {
	s.receive(op, isDeflated, s.partial.B)
	s.partial.ReleaseHeld()
	s.partial = nil
}

// receive passes on a message with the payload data.
func (s *session) receive(op ws.Opcode, isDeflated bool, data []byte) {
	if isDeflated {
		s.inflate(Kind(op), data)
		return
	}
	s.deliver(Message{Kind: Kind(op), Data: data})
}

// grown returns b with room for size more bytes. missing is what the frame lacks after
// them. A longer message is copied a few times while it arrives.
func grown(b *buf.Buffer, size int, missing int64) *buf.Buffer {
	if b == nil {
		return buf.Get(capacityFor(size, missing))
	}
	need := len(b.B) + size
	if need <= cap(b.B) {
		return b
	}
	if missing == 0 { // more frames may come
		return enlarged(b, max(need, 2*cap(b.B)))
	}
	return enlarged(b, capacityFor(need, missing))
}

// enlarged returns a buffer with what b has, and with at least this capacity. It releases b.
func enlarged(b *buf.Buffer, capacity int) *buf.Buffer {
	larger := buf.Get(capacity)
	larger.B = append(larger.B, b.B...)
	b.ReleaseHeld()
	return larger
}

// capacityFor returns the size of the buffer of a message of which have bytes have arrived,
// or are about to. missing is what its frame lacks. A peer that only says that a message is
// long gets no memory: it is up to 7 times what has arrived, up to 1 MiB, and above that as
// much as has arrived.
func capacityFor(have int, missing int64) int {
	ahead := max(have, min(aheadFactor*have, freelyAhead))
	return have + int(min(missing, int64(ahead)))
}

// inflate decodes a message and delivers it.
func (s *session) inflate(k Kind, data []byte) {
	var w *windows
	var history []byte
	if s.conn.in.Keeps() {
		s.conn.lock().Lock()
		w = s.conn.windowsLocked()
		s.conn.lock().Unlock()
		history = w.received // only the session uses it
	}
	out, err := compress.InflateMessage(data, history, int(s.host.readLimit))
	switch {
	case err == compress.ErrTooLarge:
		s.violated(ws.ErrTooLarge)
		return
	case err != nil:
		s.violated(ws.ErrDeflate)
		return
	}
	defer out.ReleaseHeld()
	if k == Text && !utf8.Valid(out.B) {
		s.violated(ws.ErrText)
		return
	}
	if w != nil {
		w.received = slide(w.received, out.B, receivedSize(s.conn.in))
	}
	s.deliver(Message{Kind: k, Data: out.B})
}

// handleInput handles what the engine has read. The result Run means that output must be
// sent before there is more.
func (s *session) handleInput() engine.Next {
	for {
		in := s.engine.Buffered()
		if len(in) == 0 {
			return engine.Read
		}
		if s.loop != nil {
			if op, isDeflated, ok := s.reader.Begins(in); ok {
				s.beginMessage(op, isDeflated)
			}
		}
		used, p, err := s.reader.Next(in)
		s.read += used
		switch {
		case err != nil:
			s.violated(err.(*ws.Error))
		case p.Opcode.IsControl():
			s.handleControl(p)
		case p.Opcode != ws.OpContinuation:
			s.handlePiece(p)
		}
		s.engine.Discard(used)
		if used == len(in) {
			return engine.Read
		}
		if next, isOver := s.isOver(); isOver {
			return next
		}
	}
}

// isOver reports whether the call ends before there is more input: the connection does, or there is
// much output, or, with callbacks, some that is being written.
func (s *session) isOver() (next engine.Next, isOver bool) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	switch {
	case s.ending != endNot:
		return engine.Read, true
	case len(s.out) >= flushSize || s.run == flushing && s.loop == nil:
		return engine.Run, true
	}
	return engine.Read, false
}

// deliver passes a message to the program, unless the connection is closing.
func (s *session) deliver(m Message) {
	mu := s.conn.lock()
	mu.Lock()
	isOpen := s.conn.phase == phaseOpen
	mu.received++
	mu.Unlock()
	if isOpen {
		s.pass(m)
	}
}

// pass is deliver for a connection that was open a moment ago.
func (s *session) pass(m Message) {
	f := s.host.Endpoint.OnMessage
	if s.loop != nil {
		s.hand(s.loop, handed{Message: m})
		return
	} else if f == nil {
		return
	}
	hasReturned := false // less to do than recover
	defer func() {
		if !hasReturned {
			s.recovered(recover())
		}
	}()
	s.called(f(s.conn, m))
	hasReturned = true
}

// called handles the error of a callback.
func (s *session) called(err error) {
	if err != nil {
		s.conn.closeFor(err)
	}
}

// recovered closes the connection of a callback that panicked with v; nil: it has called Goexit.
func (s *session) recovered(v any) {
	if v != nil {
		s.conn.panicked(v)
	}
}

// readMeanwhile sends the output of a loop, and handles input until all is written: the peer
// may be one that reads only when what it sends is read. It stops reading while the loop does
// not ask, and when there are many pongs. It reports whether there was input.
func (s *session) readMeanwhile() (hasRead bool) {
	if s.overHTTP2 {
		return false
	}
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	for s.ending == endNot {
		if s.run == running && s.hasOutputLocked() {
			s.sendMeanwhileLocked()
		}
		switch mayRead := len(s.out) < flushSize; {
		case mayRead && len(s.engine.Buffered()) > 0:
			mu.Unlock()
			s.handleInput()
			mu.Lock()
			hasRead = true
		case s.run != flushing:
			return hasRead
		case !mayRead || !s.fillLocked():
			s.awaitFlushLocked()
		}
	}
	return hasRead
}

// writePatience is how long a write may take before the session reads meanwhile, if it is not
// known that the write waits.
const writePatience = 5 * time.Millisecond

// fillLocked waits for input until flushing ends. It is false if there will be none. It does
// not hold the lock while it waits.
func (s *session) fillLocked() bool {
	mu, reads := s.conn.lock(), s.loop.reads
	if reads == nil { // sendNowLocked writes
		return false
	}
	if !s.engine.IsSocket() { // WriteReady writes nothing
		flushed := make(chan struct{})
		s.flushed = flushed
		mu.Unlock()
		timer := time.NewTimer(writePatience)
		select {
		case <-flushed:
		case <-timer.C:
		}
		timer.Stop()
		mu.Lock()
		if s.run != flushing {
			return true
		}
		s.flushed = nil
	}
	_ = reads.SetReadDeadline(time.Time{}) // the time-out of the write bounds the wait
	mu.Unlock()
	err := s.engine.Fill()
	mu.Lock()
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}
