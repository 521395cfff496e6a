package http2

import (
	"errors"
	"io"
	"os"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// headersReceived handles a piece of a field block. All blocks are decoded, because
// the tables of both sides must agree.
func (c *Conn) headersReceived(ev *h2.Event, now int64) *h2.Error {
	b := &c.block
	if ev.Has(h2.BlockStart) {
		if err := c.beginBlock(ev, now); err != nil {
			return err
		}
	}
	isEnd, violation, err := c.decoder.Receive(ev, &c.budget, now)
	if violation != nil || !isEnd {
		return violation
	}
	if ev.Err != nil && b.refuse == nil {
		b.refuse = ev.Err
	}
	stream, kind := b.stream, b.kind
	isLast, refuse := ev.Has(h2.EndStream), b.refuse
	id := ev.Stream
	c.block = block{}
	switch {
	case stream == nil && refuse != nil:
		c.refuseStream(id, refuse)
		return c.budget.Charge(now, costOf(refuse))
	case stream == nil:
		return nil
	case refuse != nil:
		return c.resetByUs(stream, refuse, now)
	case kind == fieldlist.Trailer && !isLast:
		return c.resetByUs(stream, h2.ErrTrailerNotLast, now)
	case kind == fieldlist.Trailer:
		return c.trailerReceived(stream, err, now)
	}
	return c.headComplete(stream, err, isLast, now)
}

// costOf returns what the peer is charged for the reset of a stream that was not opened.
func costOf(err *h2.Error) h2.Cost {
	if err == h2.ErrRefused {
		return h2.CostRefused
	}
	return h2.CostReset
}

// beginBlock decides what a field block is.
func (c *Conn) beginBlock(ev *h2.Event, now int64) *h2.Error {
	b := &c.block
	*b = block{isOpen: true, kind: fieldlist.Unwanted}
	var s *Stream
	if ev.Stream <= c.newest {
		s = c.streams.find(ev.Stream)
	}
	switch {
	case ev.Stream <= c.newest && (s == nil || s.output == outputReset):
		var err *h2.Error
		if b.refuse, err = c.afterEnd(ev.Stream, true); err != nil {
			return err
		}
		if err := c.budget.Charge(now, h2.CostIgnored); err != nil {
			return err
		}
	case s != nil && s.input == inputEnded:
		b.stream, b.refuse = s, h2.ErrStreamClosed
	case s != nil && s.isConnect:
		b.stream, b.refuse = s, h2.ErrTunnelFields
	case s != nil:
		b.stream, b.kind = s, fieldlist.Trailer
	case c.phase >= phaseDraining: // the peer sends it again elsewhere
		c.newest = ev.Stream
		c.endings.open(ev.Stream)
		c.endings.set(ev.Stream, endedByUs)
		if err := c.budget.Charge(now, h2.CostRefused); err != nil {
			return err
		}
	default:
		c.openStream(ev.Stream, now)
	}
	switch b.kind {
	case fieldlist.Trailer:
		c.trailer.Reset()
		c.trailer.KeepNames = true // the Request knows how it spells names
		c.decoder.Begin(fieldlist.Trailer, &c.trailer, nil)
	case fieldlist.Request:
		c.decoder.Begin(fieldlist.Request, b.stream.exchange.fields(), &c.head)
	default:
		c.decoder.Begin(fieldlist.Unwanted, nil, nil)
	}
	return nil
}

// openStream accepts a request, or refuses it if there are too many.
func (c *Conn) openStream(id uint32, now int64) {
	c.newest, c.last = id, id
	c.endings.open(id)
	b := &c.block
	if c.isFull() {
		b.refuse = h2.ErrRefused
		return
	}
	s := c.newStream(id, now)
	s.begin(c, id, now)
	c.streams.add(id, s)
	c.becomeBusy()
	c.firstDue = 0
	if c.opened++; c.opened == c.cfg.MaxRequests || c.phase == phaseAwaiting {
		c.warn()
	}
	b.stream, b.kind = s, fieldlist.Request
}

// newStream returns a Stream for a request that begins.
func (c *Conn) newStream(id uint32, now int64) *Stream {
	x := exchangePool.Get().(*Exchange)
	c.facts.Served++
	c.facts.Stream = uint64(id)
	x.begin(c, now)
	return &x.stream
}

// isFull reports whether the peer has as many streams open as it may. A stream that has
// ended for the peer does not count although its Task has not returned yet; so there may
// be twice as many streams.
func (c *Conn) isFull() bool {
	most := int(c.cfg.Settings.MaxConcurrentStreams)
	if c.streams.count() < most || c.streams.count() >= 2*most {
		return c.streams.count() >= most
	}
	count := 0
	for s := range c.streams.each() {
		if s.output != outputEnded || s.input != inputEnded {
			count++
		}
	}
	return count >= most
}

// headComplete handles the head of a request, which err refuses.
func (c *Conn) headComplete(s *Stream, err error, isLast bool, now int64) *h2.Error {
	s.input = inputOpen
	if isLast {
		s.input = inputEnded
	}
	if v := h2.Violation(err); v != nil {
		return c.malformed(s, v, now)
	}
	if !c.keepFields(s, s.exchange.fields()) {
		c.reset(s, h2.CodeRefusedStream)
		return c.budget.Charge(now, h2.CostRefused)
	}
	if err != nil { // an answer of HTTP/1.1 fits: 431, 414
		c.refuseRequest(s, err, c.head.Method.In(s.exchange.fields().Raw()))
		return nil
	}
	if c.head.Has(h1.HasLength) {
		s.declared = c.head.ContentLength
	}
	if isLast && s.declared > 0 {
		return c.resetByUs(s, h2.ErrContentLength, now)
	}
	if s.isConnect = c.head.Connect != (h1.Span{}); s.isConnect {
		s.inbox, s.held = nil, nil // keep uses buffers of the pools
	}
	c.readPriority(s)
	isStreamed, err := s.exchange.headComplete(&c.head, isLast)
	switch {
	case err != nil:
		c.refuseRequest(s, err, nil)
	case isLast:
		c.serve(s)
	case isStreamed:
		s.input = inputStreamed
		c.serve(s)
	default:
		s.lastInput = now
		c.bodyBegan(now)
		c.makeRoom(s) // the body is consumed as it arrives
	}
	return nil
}

// readPriority places s where its request wants to be. A PRIORITY_UPDATE that came before
// the request overrides its field (RFC 9218 section 7.1).
func (c *Conn) readPriority(s *Stream) {
	base := fieldlist.DefaultPriority()
	if s.isConnect { // else it sends before all that were opened later
		base.IsIncremental = true
		c.ready.Place(&s.node, base)
	}
	if t := s.exchange.fields(); t.Len() > 0 {
		if value, ok := fieldlist.PriorityField(t); ok {
			c.prioritize(s, fieldlist.ParsePriority(value, base))
		}
	}
	if p, ok := c.early.Take(s.id); ok {
		c.prioritize(s, p)
	}
}

// keepFields counts the head or the trailer section of s. It is false if those of all
// streams exceed their limit.
func (c *Conn) keepFields(s *Stream, t *field.Table) bool {
	const fieldSize = 32 // about what a field needs beside its bytes
	size := len(t.Raw()) + fieldSize*t.Len()
	s.head += size
	c.heads += size
	return c.heads <= c.cfg.maxHeads() || c.streams.count() == 1
}

// refuseRequest has a Task answer s with err. What else arrives of it is discarded. method is
// that of Exchange.refuse.
func (c *Conn) refuseRequest(s *Stream, err error, method []byte) {
	s.exchange.refuse(err, method)
	if s.input != inputEnded {
		s.input = inputDiscarded
	}
	c.serve(s)
}

// serve queues the Task of s. At the beginning of a connection our SETTINGS and the
// acknowledgement of the peer's wait for its Tasks, so that one write has these and the first
// responses. A Task may block, so it prompts before it does anything: the engine then turns to
// the connection after the Tasks that are queued, and no later than that.
func (c *Conn) serve(s *Stream) {
	if c.lacksWindow(s) {
		c.limitTasks(maxWaiting)
	}
	if c.limitsTasks.Load() && !c.mayBegin(s) {
		c.postpone(s, clock.Nanos())
		return
	}
	s.owner = ownerTask
	s.promptsFirst = c.own.Waits() && !c.cfg.TasksMayWait
	c.hasPromptingTasks = c.hasPromptingTasks || s.promptsFirst
	c.workers.Go(s)
}

// trailerReceived handles the trailer section of a request.
func (c *Conn) trailerReceived(s *Stream, err error, now int64) *h2.Error {
	if err != nil {
		v := h2.Violation(err)
		if v == nil {
			v = h2.ErrMalformed
		}
		return c.malformed(s, v, now)
	}
	h1.DropForbiddenTrailers(&c.trailer)
	if s.input != inputDiscarded && !c.keepFields(s, &c.trailer) {
		code := h2.CodeRefusedStream
		if s.owner > ownerAdmission { // a handler has begun
			code = h2.CodeEnhanceYourCalm
		}
		c.reset(s, code)
		return c.budget.Charge(now, h2.CostRefused)
	}
	return c.inputComplete(s, true, now)
}

// dataReceived handles a piece of DATA.
func (c *Conn) dataReceived(ev *h2.Event, now int64) *h2.Error {
	s := c.streams.find(ev.Stream)
	if ev.Has(h2.FrameStart) {
		if err := c.dataBegan(s, ev, now); err != nil {
			return err
		}
	}
	c.consumed(len(ev.Payload), now)
	if s == nil || s.output == outputReset {
		return nil
	}
	c.budget.RefundBody(uint32(len(ev.Payload)))
	if len(ev.Payload) > 0 {
		s.received += int64(len(ev.Payload))
		s.lastInput = now
	}
	if s.declared >= 0 && s.received > s.declared {
		return c.resetByUs(s, h2.ErrContentLength, now)
	}
	switch s.input {
	case inputOpen:
		if err := s.exchange.bodyReceived(ev.Payload); err != nil {
			if ev.Has(h2.EndStream) {
				s.input = inputEnded
			}
			c.consumedOf(s, len(ev.Payload), now)
			c.refuseRequest(s, err, nil)
			return nil
		}
		if !ev.Has(h2.EndStream) {
			c.consumedOf(s, len(ev.Payload), now)
		}
	case inputStreamed:
		s.inbox = s.keep(&s.inboxBuffer, s.inbox, ev.Payload) // within its window
		s.notify()
	case inputDiscarded:
		c.consumedOf(s, len(ev.Payload), now)
	}
	if ev.Has(h2.EndStream) {
		return c.inputComplete(s, false, now)
	}
	return nil
}

// dataBegan checks a DATA frame against the windows and the state of its stream.
func (c *Conn) dataBegan(s *Stream, ev *h2.Event, now int64) *h2.Error {
	if !c.window.Received(ev.Length) {
		return h2.ErrWindowExceeded
	}
	c.consumed(int(ev.Padding), now)
	if ev.Stream > c.newest {
		return h2.ErrIdleStream
	}
	if err := c.budget.ChargeData(now, ev, s != nil && s.input == inputStreamed); err != nil {
		return err
	}
	switch {
	case s == nil, s.output == outputReset:
		refuse, err := c.afterEnd(ev.Stream, false)
		if refuse == nil {
			return err
		}
		c.refuseStream(ev.Stream, refuse)
		return c.budget.Charge(now, h2.CostReset)
	case s.input == inputEnded:
		return c.resetByUs(s, h2.ErrStreamClosed, now)
	}
	if !s.window.Received(ev.Length) {
		return c.resetByUs(s, h2.ErrStreamWindowExceeded, now)
	}
	c.consumedOf(s, int(ev.Padding), now)
	return nil
}

// inputComplete handles the end of a request's body.
func (c *Conn) inputComplete(s *Stream, hasTrailer bool, now int64) *h2.Error {
	if s.declared >= 0 && s.received != s.declared {
		return c.resetByUs(s, h2.ErrContentLength, now)
	}
	was := s.input
	s.input = inputEnded
	switch was {
	case inputOpen:
		if hasTrailer && c.trailer.Len() > 0 {
			s.exchange.bodyComplete(&c.trailer)
		} else {
			s.exchange.bodyComplete(nil)
		}
		c.serve(s)
	case inputStreamed:
		if hasTrailer && c.trailer.Len() > 0 {
			s.trailer = new(field.Table)
			c.trailer.CopyTo(s.trailer)
		}
		s.notify()
	case inputDiscarded:
		c.removeIfOver(s)
	}
	return nil
}

// ReadBody waits for a part of a streamed body. It returns io.EOF at the end of the
// body, and ErrReset after a reset. mayWait is called before it waits.
func (s *Stream) ReadBody(p []byte, mayWait func() error) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.output == outputReset, s.reader == waitInterrupted, s.input == inputDiscarded:
			return 0, ErrReset
		case s.taken < len(s.inbox):
			return c.takeBody(s, p), nil
		case s.input == inputEnded:
			return 0, io.EOF
		}
		if s.readDue != 0 && s.readDue <= clock.Nanos() {
			return 0, os.ErrDeadlineExceeded
		}
		c.mu.Unlock()
		err := mayWait()
		c.mu.Lock()
		if err != nil {
			return 0, err
		}
		if len(s.inbox) == 0 && s.input == inputStreamed && s.output != outputReset && s.reader != waitInterrupted {
			s.awaitBody()
		}
	}
}

// takeBody copies from the inbox of s to p, and returns credit.
func (c *Conn) takeBody(s *Stream, p []byte) int {
	n := copy(p, s.inbox[s.taken:])
	s.taken += n
	if s.taken >= len(s.inbox)/2 { // a byte moves at most twice
		s.inbox, s.taken = s.inbox[:copy(s.inbox, s.inbox[s.taken:])], 0
	}
	if len(s.inbox) == 0 {
		s.inbox = s.emptied(&s.inboxBuffer, s.inbox)
	}
	before := len(c.out)
	if c.consumedOf(s, n, clock.Nanos()); len(c.out) > before {
		c.prompter.Prompt()
	}
	return n
}

// awaitBody waits for more of a streamed body.
func (s *Stream) awaitBody() {
	c := s.conn
	before := len(c.out)
	if c.makeRoom(s); len(c.out) > before { // the handler is faster than the peer
		c.prompter.Prompt()
	}
	s.armWait(s.readDue)
	s.reader = waitRuns
	if s.wait(); s.reader == waitRuns {
		s.reader = waitNone
	}
}

// armWait has the engine end a wait at due; 0: never.
func (s *Stream) armWait(due int64) {
	if c := s.conn; due != 0 && (c.bodyDue == 0 || due < c.bodyDue) {
		c.bodyDue = due
		c.prompter.Prompt()
	}
}

// ErrReset is returned when the peer has reset the stream, or the connection has ended.
var ErrReset = errors.New("http2: stream was reset")

// mergePriority applies the field of a response, if it has one, to what the peer has named (RFC 9218
// section 8).
func (s *Stream) mergePriority(response *field.Table) {
	value, ok := fieldlist.PriorityField(response)
	if !ok {
		return
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prioritize(s, fieldlist.ParsePriority(value, s.node.Priority()))
}

// Trailer returns the trailer fields of a streamed body after io.EOF; nil: there are
// none.
func (s *Stream) Trailer() *field.Table { return s.trailer }

// InterruptRead makes ReadBody return ErrReset from now on, also one that waits.
func (s *Stream) InterruptRead() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discard(s)
	s.reader = waitInterrupted
	s.changed.Broadcast()
}

// discard drops what was and will be received of a streamed body.
func (c *Conn) discard(s *Stream) {
	if s.input != inputStreamed {
		return
	}
	c.budget.Abandon(s.window.Left())
	s.input = inputDiscarded
	before := len(c.out)
	if c.consumedOf(s, len(s.inbox)-s.taken, clock.Nanos()); len(c.out) > before {
		c.prompter.Prompt()
	}
	s.inbox, s.taken = s.inbox[:0], 0
}
