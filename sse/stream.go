package sse

import (
	"slices"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A stream is a client's connection, or its stream of HTTP/2. The lock of the Hub guards it.
type stream struct {
	target engine.Target
	index  uint32 // in host.streams
	phase  phase
	form   form
	isCast bool         // Cast is about to send an event; nothing else may be sent before it returns
	first  subscription // the other ones are in extra
	extra  *extra       // host.plain: nothing but the host
}

// A phase is how far a stream has come.
type phase uint8

const (
	phaseOpen  phase = iota
	phaseEnded       // nothing may be sent any more
	phaseMoved       // another process has the connection
)

// A form is how events are framed.
type form uint8

const (
	formChunked form = iota
	formRaw          // HTTP/1.0 and HTTP/2
)

// append appends text, if there is any.
func (f form) append(dst, text []byte) []byte {
	switch {
	case len(text) == 0:
		return dst
	case f == formRaw:
		return append(dst, text...)
	}
	return appendChunk(dst, text)
}

// appendEvent appends an event.
func (f form) appendEvent(dst []byte, e *entry) []byte {
	if f == formRaw {
		return append(dst, e.raw()...)
	}
	return append(dst, e.chunk...)
}

// appendEnd appends the end of the body.
func (f form) appendEnd(dst []byte) []byte {
	if f == formRaw {
		return dst
	}
	return append(dst, lastChunk...)
}

// A subscription is a topic of a stream, with the topic's last event that was sent.
type subscription struct {
	topic *topic
	sent  uint64
	place uint32 // in topic.members
}

// reorderTime is the longest time after which an event reaches a process that another
// process has had before.
const reorderTime = 10 * time.Second

// An extra is what few streams have, and the host, which does not change. Streams that have
// nothing of it share one.
type extra struct {
	host     *host
	others   []subscription
	prompter engine.Prompter // without a Target
	err      error           // why the stream ends
	// had is what the client has got from other logs, and since. Events that it covers are
	// not sent. It is dropped when the log has all of them, or after reorderTime: what they
	// have in another order comes within that time. nil: the client has got what the
	// subscriptions say.
	had    position
	joined int64
	ended  func(error) // is called at the end; nil: nobody waits for it
}

func (s *stream) ensureExtra() *extra {
	if h := s.extra.host; s.extra == &h.plain {
		s.extra = &extra{host: h}
	}
	return s.extra
}

// subscriptions returns how many there are, and subscription the one at i.
func (s *stream) subscriptions() int {
	return 1 + len(s.extra.others)
}

func (s *stream) subscription(i int) *subscription {
	if i == 0 {
		return &s.first
	}
	return &s.extra.others[i-1]
}

// topics returns the names of the stream's topics.
func (s *stream) topics() (names []string) {
	for i := range s.subscriptions() {
		names = append(names, s.subscription(i).topic.name)
	}
	return names
}

// joinLocked subscribes s to the topics of o. It returns the text that is sent first.
func (h *Hub) joinLocked(s *stream, o opening) (text []byte) {
	l := &h.log
	id, begin := o.had, l.last+1
	if o.had == nil {
		id = l.position()
	} else {
		begin = l.unseen(o.had)
		s.ensureExtra().had, s.extra.joined = slices.Clone(o.had), clock.Nanos()
	}
	if len(o.topics) > 1 {
		s.ensureExtra().others = make([]subscription, len(o.topics)-1)
	}
	for i, name := range o.topics {
		t := l.topic(name)
		sub := s.subscription(i)
		*sub = subscription{topic: t, sent: l.before(t, begin), place: uint32(len(t.members))}
		t.members = append(t.members, s)
	}
	h.streams++
	if h.options.Retry > 0 && !o.isMoved {
		text = appendRetry(text, h.options.Retry)
	}
	text = append(text, o.first...)
	if o.isNew { // an event without data only tells the client its position
		text = append(appendPosition(append(text, "id: "...), id), "\n\n"...)
	}
	return text
}

// leaveLocked ends the subscriptions of s.
func (h *Hub) leaveLocked(s *stream) {
	for i := range s.subscriptions() {
		sub := s.subscription(i)
		t := sub.topic
		last := len(t.members) - 1
		moved := t.members[last]
		t.members[sub.place], t.members[last] = moved, nil
		t.members = t.members[:last]
		if moved != s {
			moved.of(t).place = sub.place
			if t.isCast { // it may have passed the place
				moved.promptLocked()
			}
		}
		if len(t.members) < cap(t.members)/4 {
			t.members = slices.Clone(t.members)
		}
		h.log.forget(t)
	}
	h.streams--
}

// of returns the subscription to t, of which s is a member.
func (s *stream) of(t *topic) *subscription {
	for i := range s.subscriptions() {
		if sub := s.subscription(i); sub.topic == t {
			return sub
		}
	}
	return nil
}

// lastAt returns when the last event of the stream's topics came.
func (s *stream) lastAt() (at int64) {
	for i := range s.subscriptions() {
		at = max(at, s.subscription(i).topic.at)
	}
	return at
}

// promptLocked makes the engine send what is due.
func (s *stream) promptLocked() {
	if s.target.Generation != 0 {
		s.extra.host.server.Prompt(s.target)
	} else {
		s.extra.prompter.Prompt()
	}
}

// A progress is how far a stream is after take.
type progress uint8

const (
	caughtUp progress = iota
	hasMore           // take can be called again
	hasLost           // its next event is not in the log any more
)

// takeLocked appends the next events of s to dst, until it has limit bytes or more.
func (h *Hub) takeLocked(s *stream, dst []byte, limit int) ([]byte, progress) {
	for {
		sub, next, isLost := h.nextLocked(s)
		switch {
		case isLost:
			return dst, hasLost
		case next == 0:
			h.settleLocked(s)
			return dst, caughtUp
		case len(dst) >= limit:
			return dst, hasMore
		}
		sub.sent = next
		e := h.log.at(next)
		switch m := s.extra; {
		case m.had == nil:
			dst = s.form.appendEvent(dst, e)
		case !h.log.covers(m.had, e.mark):
			m.had = m.had.with(e.mark)
			dst = s.form.append(dst, e.withID(m.had))
		}
	}
}

// nextLocked returns the next event of s, with its subscription; 0: there is none.
func (h *Hub) nextLocked(s *stream) (sub *subscription, next uint64, isLost bool) {
	for i := range s.subscriptions() {
		in := s.subscription(i)
		t := in.topic
		switch {
		case in.sent >= t.last:
			continue
		case in.sent < t.evicted:
			return nil, 0, true
		}
		after := t.oldest
		if in.sent >= after {
			after = h.log.at(in.sent).next
		}
		if next == 0 || after < next {
			sub, next = in, after
		}
	}
	return sub, next, false
}

// settleLocked frees what a stream does not need after it has caught up.
func (h *Hub) settleLocked(s *stream) {
	m := s.extra
	if m.had != nil && (h.log.reaches(m.had) || clock.Nanos()-m.joined > int64(reorderTime)) {
		m.had = nil
	}
	if m.had == nil && m.others == nil && m.prompter == nil && m.err == nil && m.ended == nil {
		s.extra = &m.host.plain
	}
}

// lagsLocked reports whether there is something to send.
func (h *Hub) lagsLocked(s *stream) bool {
	_, next, isLost := h.nextLocked(s)
	return next != 0 || isLost
}
