package sse

import (
	"bytes"
	"slices"
)

// A log holds the latest events of all topics, in the order in which they came. A stream
// needs no queue: it remembers the last event that it has sent, and continues there. The
// lock of the Hub guards it.
//
// Every event has a sequence number; 0 is none.
type log struct {
	limit      int // entries
	limitBytes int // of their memory
	ring       []entry
	first      uint64   // the oldest entry
	last       uint64   // the newest one
	bytes      int      // memory of the entries
	sources    []source // sources[0] is this process
	topics     map[string]*topic
	scratch    []byte
}

// An entry is an event of the log.
type entry struct {
	topic *topic
	chunk []byte // the event as a chunk
	text  uint8  // where in chunk the data of the chunk begins
	mark  mark
	prev  uint64 // the event of the topic before; 0: none. It may have left the log
	next  uint64 // the next event of the topic; 0: none yet
}

// overhead is what an entry takes besides its chunk and the name of its topic: a place in the ring,
// and, at most, a topic of its own.
const overhead = 256

// size is the memory that e takes.
func (e *entry) size() int { return len(e.chunk) + len(e.topic.name) + overhead }

// raw returns the event without the frame of its chunk.
func (e *entry) raw() []byte { return e.chunk[e.text : len(e.chunk)-2] }

// withID returns raw with another ID.
func (e *entry) withID(p position) []byte {
	raw := e.raw()
	text := appendPosition([]byte("id: "), p)
	return append(text, raw[bytes.IndexByte(raw, '\n'):]...)
}

// A source is a process that publishes.
type source struct {
	mark           // its last event in the log, or before
	entries int    // in the log
	evicted uint64 // its last event that was in no log, or is not any more
	at      uint64 // sequence number of its last event
}

// A topic exists while it has streams, or events in the log.
type topic struct {
	name    string
	members []*stream
	oldest  uint64 // its first event in the log; 0: none
	last    uint64 // its newest event
	evicted uint64 // its last event that has left the log
	at      int64  // when last came
	isCast  bool   // an event is on its way to members
}

func newLog(run uint32, limit, limitBytes int) log {
	limit = min(limit, max(limitBytes/overhead, 1)) // so that places without an event take no memory beyond limitBytes
	return log{limit: limit, limitBytes: limitBytes, first: 1, sources: []source{{mark: mark{run: run}}}, topics: map[string]*topic{}}
}

// at returns the entry with a sequence number, which is in the log.
func (l *log) at(sequence uint64) *entry { return &l.ring[(sequence-1)%uint64(l.limit)] }

// topic returns the topic called name, and makes it if there is none. Whoever does not make
// it a member or an entry calls forget.
func (l *log) topic(name string) *topic {
	t := l.topics[name]
	if t == nil {
		t = &topic{name: name}
		l.topics[name] = t
	}
	return t
}

// forget removes a topic that has neither streams nor events.
func (l *log) forget(t *topic) {
	if len(t.members) == 0 && t.oldest == 0 && !t.isCast {
		delete(l.topics, t.name)
	}
}

// source returns that of a run, nil if it is not known.
func (l *log) source(run uint32) *source {
	for i := range l.sources {
		if l.sources[i].run == run {
			return &l.sources[i]
		}
	}
	return nil
}

// addSource makes the source of a run. If there are too many, it forgets the other process
// that has been silent for longest.
func (l *log) addSource(run uint32) *source {
	if len(l.sources) == maxMarks {
		stale := 1
		for i := 2; i < len(l.sources); i++ {
			if l.sources[i].at < l.sources[stale].at {
				stale = i
			}
		}
		l.sources = slices.Delete(l.sources, stale, stale+1)
	}
	l.sources = append(l.sources, source{mark: mark{run: run}})
	return &l.sources[len(l.sources)-1]
}

// add appends an event. It returns its topic, and the topic's event before; nil if the log
// had the event, or later ones of its source.
func (l *log) add(name string, m mark, e *Event, now int64) (t *topic, before uint64) {
	s := l.source(m.run)
	if s == nil {
		s = l.addSource(m.run)
	}
	if m.number <= s.number {
		return nil, 0
	}
	if m.number > s.number+1 { // this process has missed some
		s.evicted = m.number - 1
	}
	s.number, s.at = m.number, l.last+1
	s.entries++
	text := appendText(l.appendID(l.scratch[:0], m), e.Name, e.Data)
	chunk := appendChunk(make([]byte, 0, len(text)+chunkOverhead), text)
	head := len(chunk) - len(text) - 2
	if cap(text) <= 4<<10 {
		l.scratch = text
	}
	for l.last+1-l.first == uint64(l.limit) || l.bytes+len(chunk)+len(name)+overhead > l.limitBytes && l.first <= l.last {
		l.evict()
	}
	t = l.topic(name)
	before = t.last
	l.last++
	if len(l.ring) < l.limit && l.last <= uint64(l.limit) {
		l.ring = append(l.ring, entry{})
	}
	*l.at(l.last) = entry{topic: t, chunk: chunk, text: uint8(head), mark: m, prev: before}
	l.bytes += l.at(l.last).size()
	if t.oldest == 0 {
		t.oldest = l.last
	} else {
		l.at(t.last).next = l.last
	}
	t.last, t.at = l.last, now
	return t, before
}

// evict drops the oldest event.
func (l *log) evict() {
	e := l.at(l.first)
	t := e.topic
	t.oldest, t.evicted = e.next, l.first
	if s := l.source(e.mark.run); s != nil {
		s.entries--
		s.evicted = max(s.evicted, e.mark.number)
	}
	l.bytes -= e.size()
	*e = entry{}
	l.first++
	l.forget(t)
}

// A loss is what is known of events that are not in the log any more.
type loss uint8

const (
	lostNone  loss = iota
	lostMaybe      // the log has forgotten a topic
	lostSome
)

// lostSince reports whether events of topics after a sequence number are not in the log any more.
func (l *log) lostSince(topics []string, sequence uint64) (all loss) {
	if l.first <= sequence+1 {
		return lostNone
	}
	for _, name := range topics {
		switch t := l.topics[name]; {
		case t == nil:
			all = max(all, lostMaybe)
		case t.evicted > sequence:
			return lostSome
		}
	}
	return all
}

// position returns what a client has that has got everything.
func (l *log) position() (p position) {
	own := l.sources[0].mark
	if l.first <= l.last {
		own = l.at(l.last).mark
	}
	p = append(p, own)
	for _, s := range l.sources {
		if s.run != own.run {
			p = append(p, s.mark)
		}
	}
	return p
}

// appendID appends the line with the position after the event m, which is about to become
// the last one.
func (l *log) appendID(dst []byte, m mark) []byte {
	dst = appendMark(append(dst, "id: "...), m)
	for _, s := range l.sources {
		if l.isRecent(s) && s.run != m.run {
			dst = appendMark(append(dst, '-'), s.mark)
		}
	}
	return append(dst, '\n')
}

// isRecent reports whether another log may have events of s: not all of them drop an event at
// the same time. One that is not recent needs no mark.
func (l *log) isRecent(s source) bool {
	return s.entries > 0 || s.number > 0 && l.last-s.at < 2*(l.last+1-l.first)
}

// hasGap reports whether events after p may be missing in the log.
func (l *log) hasGap(p position) bool {
	own := p[0]
	s := l.source(own.run)
	if s == nil && own.number > 0 {
		return true // of another log
	}
	isThere := s != nil && own.number > s.evicted // or is to come; then all that is gone came before it
	for _, s := range l.sources {
		number, isNamed := l.reachedOf(&s, p)
		if s.evicted > number && (isNamed || !isThere) {
			return true
		}
	}
	return false
}

// afterGap returns the position of a client that has p and has been told that it does not get
// what is not in the log any more.
func (l *log) afterGap(p position) (after position) {
	for _, s := range l.sources {
		number, _ := l.reachedOf(&s, p)
		after = append(after, mark{s.run, max(number, s.evicted)})
	}
	return after
}

// hasMissed reports whether this process has not got events after p that it should send to a
// stream of another process.
func (l *log) hasMissed(p position) bool {
	for _, m := range p {
		if s := l.source(m.run); s != nil && s.evicted > m.number {
			return true
		}
	}
	return false
}

// reaches reports whether the log has got all of p.
func (l *log) reaches(p position) bool {
	for _, m := range p {
		if s := l.source(m.run); s == nil || s.number < m.number {
			return false
		}
	}
	return true
}

// unseen returns the sequence number from which on there may be events that p does not cover.
// It looks at no more than these and what lies between them.
func (l *log) unseen(p position) uint64 {
	left := 0
	for _, s := range l.sources {
		number, _ := l.reachedOf(&s, p)
		left += int(min(uint64(s.entries), s.number-min(number, s.number)))
	}
	sequence := l.last + 1
	for left > 0 && sequence > l.first {
		sequence--
		if !l.covers(p, l.at(sequence).mark) {
			left--
		}
	}
	return sequence
}

// before returns the last event of t before a sequence number; 0: there was none.
func (l *log) before(t *topic, sequence uint64) uint64 {
	at := t.last
	for at >= sequence && at >= l.first {
		at = l.at(at).prev
	}
	return at
}

// covers reports whether a client with position p has the event m.
func (l *log) covers(p position, m mark) bool {
	number, isNamed := p.find(m.run)
	if !isNamed {
		s := l.source(m.run)
		if s == nil {
			return true // so old that its process is forgotten
		}
		number, _ = l.reachedOf(s, p)
	}
	return m.number <= number
}

// reachedOf returns the number of the last event of s that a client with position p has, and
// whether p names s. The log that has made p may have forgotten s, as addSource does, if p
// is full and s has been silent for longer than all that p names.
func (l *log) reachedOf(s *source, p position) (number uint64, isNamed bool) {
	number, isNamed = p.find(s.run)
	if isNamed || s.at == 0 || len(p) < maxMarks-1 { // an ID does not name a process that has not published, as its own may be
		return number, isNamed
	}
	for _, o := range l.sources {
		if _, isNamed := p.find(o.run); isNamed && o.at > 0 && o.at < s.at {
			return 0, false
		}
	}
	return s.number, false
}
