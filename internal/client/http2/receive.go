package http2

import (
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// responseRefund is what a peer gets back for a complete response: it may have sent
// small window updates for the request.
const responseRefund = 4 * h2.RequestRefund

// parse handles input. A violation ends the connection.
func (c *Conn) parse(in []byte, now int64) {
	for len(in) > 0 && c.phase < phaseFailed {
		n, ev, err := c.parser.Next(in)
		in = in[n:]
		if err == nil {
			if ev.Kind == h2.EventNone {
				return
			}
			err = c.handle(&ev, now)
		}
		if err == nil && len(c.out) > maxOut && c.budget.HasAcks() {
			err = h2.ErrExcessiveLoad
		}
		if err != nil {
			c.fail(err)
		}
	}
}

// handle acts on ev. An error ends the connection.
func (c *Conn) handle(ev *h2.Event, now int64) *h2.Error {
	switch ev.Kind {
	case h2.EventHeaders:
		return c.headersReceived(ev, now)
	case h2.EventData:
		return c.dataReceived(ev, now)
	case h2.EventSetting:
		return c.settingReceived(ev, now)
	case h2.EventSettingsAck:
		return c.settingsAcked()
	case h2.EventPing:
		c.out = h2.AppendPing(c.out, ev.Ping, true)
		return c.budget.ChargePing(now)
	case h2.EventPingAck:
		switch ev.Ping {
		case h2.RoundTripPing:
			c.growth.RoundTrip.End(now)
		case healthPing:
			c.pingAnswered()
		}
		return c.budget.Charge(now, h2.CostIgnored)
	case h2.EventWindowUpdate:
		return c.windowReceived(ev, now)
	case h2.EventReset:
		return c.resetReceived(ev, now)
	case h2.EventGoAway:
		return c.goAwayReceived(ev, now)
	case h2.EventIgnored:
		return c.budget.Charge(now, h2.CostIgnored)
	case h2.EventStreamError:
		if s := c.streams[ev.Stream]; s != nil {
			c.resetWith(s, ev.Err.Code, ev.Err)
		} else if ev.Stream >= c.nextID {
			return ev.Err // RST_STREAM must not be sent for it
		}
		return c.budget.Charge(now, h2.CostReset)
	}
	return nil
}

func (c *Conn) settingReceived(ev *h2.Event, now int64) *h2.Error {
	if isLast, err := c.peer.Receive(ev, &c.encoder, !c.hasSettings); err != nil || !isLast {
		return err
	}
	if c.peer.WindowChanged() {
		for _, s := range c.streams {
			if !c.peer.Shift(&s.sendWindow) {
				return h2.ErrWindowOverflow
			}
			c.schedule(s)
		}
	}
	limit := int(min(c.peer.MaxConcurrentStreams, mostStreams))
	if limit != c.limit || !c.hasSettings {
		c.limit, c.hasSettings = limit, true
		c.notices |= noticeLimit
		c.signalSettings()
	}
	c.out = h2.AppendSettingsAck(c.out)
	return c.budget.ChargeSettings(now)
}

func (c *Conn) settingsAcked() *h2.Error {
	before := c.own.InForce
	if err := c.own.Ack(); err != nil {
		return err
	}
	for _, s := range c.streams {
		s.window.Shift(before.InitialWindowSize, c.own.InForce.InitialWindowSize)
	}
	return nil
}

func (c *Conn) windowReceived(ev *h2.Event, now int64) *h2.Error {
	if ev.Stream == 0 {
		if !c.sendWindow.Add(ev.Value) {
			return h2.ErrWindowOverflow
		}
		return c.budget.ChargeUpdate(now, ev.Value)
	}
	s := c.streams[ev.Stream]
	if s == nil {
		if ev.Stream >= c.nextID {
			return h2.ErrIdleStream
		}
		return c.budget.ChargeEcho(now, h2.CostIgnored) // of a stream that has ended
	}
	if !s.sendWindow.Add(ev.Value) {
		return c.violated(s, h2.ErrStreamWindowOverflow, now)
	}
	c.schedule(s)
	return c.budget.ChargeUpdate(now, ev.Value)
}

// onEndedStream handles a frame of a stream that has ended, which the peer may not have known
// when it sent the frame.
func (c *Conn) onEndedStream(id uint32, now int64) *h2.Error {
	if id >= c.nextID {
		return h2.ErrIdleStream
	}
	return c.budget.Charge(now, h2.CostIgnored)
}

func (c *Conn) resetReceived(ev *h2.Event, now int64) *h2.Error {
	s := c.streams[ev.Stream]
	if s == nil {
		return c.onEndedStream(ev.Stream, now)
	}
	outcome := MaybeProcessed
	if ev.Code == h2.CodeRefusedStream || ev.Code == h2.CodeHTTP11Required {
		outcome = Refused
	}
	c.finish(s, &Error{Outcome: outcome, Code: ev.Code, Err: ErrReset})
	return nil
}

func (c *Conn) goAwayReceived(ev *h2.Event, now int64) *h2.Error {
	c.code = ev.Code
	outcome := Unprocessed
	if ev.Code == h2.CodeEnhanceYourCalm {
		outcome = MaybeProcessed // to send it again elsewhere would be more of the same
	}
	if c.phase == phaseOpen {
		c.phase, c.failure = phaseDraining, ErrGoingAway
		c.notices |= noticeEnded
	}
	for id, s := range c.streams {
		if id > ev.Stream {
			c.finish(s, &Error{Outcome: outcome, Code: ev.Code, Err: ErrGoingAway})
		}
	}
	c.endIfDone()
	return c.budget.Charge(now, h2.CostIgnored)
}

// violated resets s because of err, a fault of the peer.
func (c *Conn) violated(s *Stream, err *h2.Error, now int64) *h2.Error {
	c.resetWith(s, err.Code, err)
	return c.budget.Charge(now, h2.CostReset)
}

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
	s, kind, refuse := b.stream, b.kind, b.refuse
	c.block = block{}
	v := h2.Violation(err)
	isLast := ev.Has(h2.EndStream)
	switch {
	case s == nil:
		return nil
	case refuse != nil:
		return c.violated(s, refuse, now)
	case v != nil:
		return c.violated(s, v, now)
	case err != nil: // too large
		c.cancel(s, err)
	case kind == fieldlist.Trailer && !isLast:
		return c.violated(s, h2.ErrTrailerNotLast, now)
	case kind == fieldlist.Trailer:
		h1.DropForbiddenTrailers(&c.trailer)
		if c.trailer.Len() > 0 {
			s.Request.TrailerReceived(&c.trailer)
		}
		return c.inputComplete(s, now)
	default:
		return c.headReceived(s, isLast, now)
	}
	return nil
}

// beginBlock finds out whose field block begins.
func (c *Conn) beginBlock(ev *h2.Event, now int64) *h2.Error {
	s := c.streams[ev.Stream]
	c.block = block{stream: s, kind: fieldlist.Unwanted}
	switch {
	case s == nil:
		c.decoder.Begin(fieldlist.Unwanted, nil, nil)
		return c.onEndedStream(ev.Stream, now)
	case s.input == inputEnded:
		c.block.refuse = h2.ErrStreamClosed
		c.decoder.Begin(fieldlist.Unwanted, nil, nil)
	case s.input == inputHead:
		c.block.kind = fieldlist.Response
		c.decoder.Begin(fieldlist.Response, s.Request.Fields(), &c.head)
	default:
		c.block.kind = fieldlist.Trailer
		c.trailer.Reset()
		c.trailer.KeepNames = true // the Request knows how it spells names
		c.decoder.Begin(fieldlist.Trailer, &c.trailer, nil)
	}
	return nil
}

// headReceived handles a valid head of the response of s.
func (c *Conn) headReceived(s *Stream, isLast bool, now int64) *h2.Error {
	c.drained = max(c.drained, s.start)
	status := c.head.StatusCode
	isInterim := status < 200
	switch {
	case isInterim && isLast:
		return c.violated(s, h2.ErrMalformed, now)
	case isInterim && s.interims == streams.MaxInterims:
		c.cancel(s, streams.ErrInterim)
		return c.budget.Charge(now, h2.CostReset)
	case isInterim:
		s.interims++
		if _, err := s.Request.HeadReceived(&c.head, false); err != nil {
			c.cancel(s, err)
			return nil
		}
		if s.WantsInterims {
			s.heads = append(s.heads, interim{head: c.head})
			s.Request.Fields().CopyTo(&s.heads[len(s.heads)-1].fields)
			c.signal(&s.receiver)
		}
		s.Request.Fields().Reset()
		return nil
	}
	s.isTunnel = s.IsConnect && status < 300
	s.declared = s.bodyLength(&c.head)
	if isLast && s.declared > 0 {
		return c.violated(s, h2.ErrContentLength, now)
	}
	isStreamed, err := s.Request.HeadReceived(&c.head, isLast)
	switch {
	case err != nil:
		c.cancel(s, err)
	case isLast:
		return c.inputComplete(s, now)
	case isStreamed:
		s.input = inputStreamed
		s.due = 0
		c.signal(&s.receiver)
	default:
		s.input = inputBody
		c.out = c.growth.AppendRoom(c.out, s.id, &s.window, s.declared)
	}
	return nil
}

// bodyLength returns how many bytes the body of the response has; -1: it does not say.
func (s *Stream) bodyLength(head *fieldlist.Head) int64 {
	switch status := head.StatusCode; {
	case s.isTunnel:
		return -1
	case s.IsHead, status == 204, status == 304:
		return 0
	case head.Has(h1.HasLength):
		return head.ContentLength
	}
	return -1
}

// dataReceived handles a piece of DATA.
func (c *Conn) dataReceived(ev *h2.Event, now int64) *h2.Error {
	s := c.streams[ev.Stream]
	if ev.Has(h2.FrameStart) {
		if err := c.dataBegan(s, ev, now); err != nil {
			return err
		}
	}
	c.consumed(len(ev.Payload), now)
	if s == nil || s.state != streamOpen {
		return nil
	}
	c.budget.RefundBody(uint32(len(ev.Payload)))
	s.received += int64(len(ev.Payload))
	if s.declared >= 0 && s.received > s.declared {
		return c.violated(s, h2.ErrContentLength, now)
	}
	isLast := ev.Has(h2.EndStream)
	switch {
	case len(ev.Payload) == 0:
	case s.input == inputStreamed:
		s.inbox = append(s.inbox, ev.Payload...) // within its window
		c.signal(&s.receiver)
	default:
		if err := s.Request.BodyReceived(ev.Payload); err != nil {
			c.cancel(s, err)
			return nil
		}
		if !isLast {
			c.consumedOf(s, len(ev.Payload), now)
		}
	}
	if isLast {
		return c.inputComplete(s, now)
	}
	return nil
}

// dataBegan checks a DATA frame against the windows and the state of its stream.
func (c *Conn) dataBegan(s *Stream, ev *h2.Event, now int64) *h2.Error {
	if !c.window.Received(ev.Length) {
		return h2.ErrWindowExceeded
	}
	c.consumed(int(ev.Padding), now)
	// A response was asked for, so small pieces of it cost as much as over HTTP/1.1: nothing.
	if err := c.budget.ChargeData(now, ev, s != nil); err != nil {
		return err
	}
	switch {
	case s == nil && ev.Stream >= c.nextID:
		return h2.ErrIdleStream
	case s == nil:
		return nil
	case s.input == inputHead:
		return c.violated(s, h2.ErrMalformed, now)
	case s.input == inputEnded:
		return c.violated(s, h2.ErrStreamClosed, now)
	case !s.window.Received(ev.Length):
		return c.violated(s, h2.ErrStreamWindowExceeded, now)
	}
	c.consumedOf(s, int(ev.Padding), now)
	return nil
}

// inputComplete handles the end of a response. What was not sent of the request is not
// wanted any more, unless this is a tunnel.
func (c *Conn) inputComplete(s *Stream, now int64) *h2.Error {
	if s.declared >= 0 && s.received != s.declared {
		return c.violated(s, h2.ErrContentLength, now)
	}
	switch {
	case s.isTunnel:
		s.input = inputEnded
		c.signal(&s.receiver)
		if s.output != outputEnded {
			return nil
		}
	case s.output != outputEnded:
		c.out = h2.AppendReset(c.out, s.id, h2.CodeCancel)
	}
	c.budget.Refund(responseRefund)
	c.finish(s, nil)
	return nil
}

// consumed counts n received bytes as used, on the connection. They are used when they
// arrive: what a stream holds, its own window bounds.
func (c *Conn) consumed(n int, now int64) {
	c.window.Consumed(uint32(n))
	c.out = c.growth.AppendCredit(c.out, 0, &c.window, now)
}

// consumedOf counts n bytes as used on s, and returns credit if enough is due.
func (c *Conn) consumedOf(s *Stream, n int, now int64) {
	s.window.Consumed(uint32(n))
	c.out = c.growth.AppendCredit(c.out, s.id, &s.window, now)
}
