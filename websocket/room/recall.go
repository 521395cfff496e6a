package room

import "github.com/sluicehttp/sluice/internal/process/recall"

// recalled is the recall.Log of a Hub with a History.
type recalled struct{ hub *Hub }

// Cursors implements recall.Log.
func (r recalled) Cursors() (all []recall.Cursor) {
	h := r.hub.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sources {
		all = append(all, recall.Cursor{Run: s.run, Number: s.number, Evicted: s.evicted})
	}
	return all
}

// Len implements recall.Log.
func (r recalled) Len() int {
	h := r.hub.history
	h.mu.Lock()
	defer h.mu.Unlock()
	return int(h.last + 1 - h.first)
}

// Page implements recall.Log.
func (r recalled) Page(have []recall.Cursor, size int) (messages [][]byte, isLast bool) {
	got := make(map[uint32]uint64, len(have))
	var p position
	for _, c := range have {
		got[c.Run] = c.Number
		p = append(p, reached{mark: mark{c.Run, c.Number}})
	}
	h := r.hub.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range h.sources {
		got[s.run], _ = h.reachedOf(i, p)
	}
	for place := h.first; place <= h.last; place++ {
		m := h.at(place)
		number, isKnown := got[m.mark.run]
		if m.mark.number <= number || !isKnown && len(p) == maxSources { // forgotten there, and here
			continue
		}
		if size -= len(m.prepared.Data()) + overhead; size < 0 && len(messages) > 0 {
			return messages, false
		}
		messages = append(messages, encode(m.prepared, m.mark, m.room))
	}
	return messages, true
}

// Take implements recall.Log.
func (r recalled) Take(message []byte) {
	if len(message) > 0 && message[0] == versionMarked {
		r.hub.receive(every, message)
	}
}

// Reach implements recall.Log.
func (r recalled) Reach(cursors []recall.Cursor) {
	h := r.hub.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range cursors {
		s := h.source(c.Run)
		if s == nil && c.Number > 0 && len(h.sources) < maxSources {
			s = h.known(c.Run)
		}
		if s != nil && s.number < c.Number {
			s.number, s.evicted = c.Number, c.Number
		}
	}
}

// follows reports whether the history has all messages before one of another process.
func (h *history) follows(data []byte) bool {
	if len(data) == 0 || data[0] != versionMarked {
		return true
	}
	m, _ := cutMark(data[1:])
	h.mu.Lock()
	defer h.mu.Unlock()
	number := uint64(0)
	if s := h.source(m.run); s != nil {
		number = s.number
	}
	return m.number <= number+1
}
