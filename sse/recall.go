package sse

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/process/recall"
)

// receiver is the backplane.Receiver of a Hub.
type receiver struct{ hub *Hub }

// Received implements backplane.Receiver.
func (r receiver) Received(_ string, data []byte) {
	if !r.hub.recall.Received(data, func() bool { return r.hub.follows(data) }) {
		r.hub.receive(data)
	}
}

// Gap implements backplane.Receiver.
func (r receiver) Gap(room string) {
	if r.hub.recall.Gap(room) {
		r.hub.gap()
	}
}

func (h *Hub) gap() {
	if f := h.options.OnGap; f != nil {
		f()
	}
}

// follows reports whether the log has all events before a message.
func (h *Hub) follows(data []byte) bool {
	m, ok := parseMessage(data)
	if !ok {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	number := uint64(0)
	if s := h.log.source(m.mark.run); s != nil {
		number = s.number
	}
	return m.mark.number <= number+1
}

// receive carries out a message of another process.
func (h *Hub) receive(data []byte) {
	m, ok := parseMessage(data)
	if !ok || m.mark.run == h.log.sources[0].run {
		return
	}
	order := h.orderOf(m.topic)
	order.Lock()
	defer order.Unlock()
	h.mu.Lock()
	c := h.beginLocked(m.topic, m.mark, &m.event)
	h.mu.Unlock()
	h.castLocked(c)
}

// recalled is the recall.Log of a Hub.
type recalled struct{ hub *Hub }

// Cursors implements recall.Log.
func (r recalled) Cursors() (all []recall.Cursor) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	for _, s := range r.hub.log.sources {
		all = append(all, recall.Cursor{Run: s.run, Number: s.number, Evicted: s.evicted})
	}
	return all
}

// Len implements recall.Log.
func (r recalled) Len() int { return r.hub.Stats().Events }

// Page implements recall.Log.
func (r recalled) Page(have []recall.Cursor, size int) (messages [][]byte, isLast bool) {
	var p position
	for _, c := range have {
		p = append(p, mark{c.Run, c.Number})
	}
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	l := &r.hub.log
	bytes := 0
	for sequence := l.unseen(p); sequence <= l.last; sequence++ {
		e := l.at(sequence)
		if l.covers(p, e.mark) {
			continue
		}
		if bytes += len(e.chunk); bytes > size && len(messages) > 0 {
			return messages, false
		}
		messages = append(messages, appendMessage(nil, message{topic: e.topic.name, mark: e.mark, event: e.event()}))
	}
	return messages, true
}

// Take implements recall.Log.
func (r recalled) Take(message []byte) { r.hub.receive(message) }

// Reach implements recall.Log.
func (r recalled) Reach(cursors []recall.Cursor) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	for _, c := range cursors {
		r.hub.log.reach(mark{c.Run, c.Number})
	}
}

// reach says that events up to m do not come any more.
func (l *log) reach(m mark) {
	s := l.source(m.run)
	if s == nil && m.number > 0 && len(l.sources) < maxMarks {
		s = l.addSource(m.run)
	}
	if s != nil && s.number < m.number {
		s.number, s.evicted = m.number, m.number
	}
}

// event returns the event, whose data are a copy.
func (e *entry) event() (out Event) {
	_, text, _ := bytes.Cut(e.raw(), []byte("\n")) // after the ID
	if name, isNamed := bytes.CutPrefix(text, []byte("event: ")); isNamed {
		name, text, _ = bytes.Cut(name, []byte("\n"))
		out.Name = string(name)
	}
	for line := range bytes.Lines(bytes.TrimSuffix(text, []byte("\n\n"))) {
		out.Data = append(out.Data, bytes.TrimPrefix(line, []byte("data: "))...)
	}
	return out
}
