package room

import (
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/websocket"
)

const (
	// maxSources is how many processes a history knows.
	maxSources = 64
	// transit is how long a message takes at most from one process to all others.
	transit = time.Second
	// overhead is what a message takes besides its payload and the name of its room.
	overhead = 200
)

// A mark is a message of one process: the process has a random number, and counts its
// messages from 1.
type mark struct {
	run    uint32
	number uint64
}

// A position is the messages that a member has got: those of each process up to a number.
type position []reached

// A reached is the last message of a process that a member has got, and how long ago that
// was.
type reached struct {
	mark
	age time.Duration // in milliseconds
}

// A history has the latest messages of all rooms, for members that come from other
// processes.
//
// Members of a room have got the same messages whenever the room's order is free: it is
// held from when a message gets its place in the history until it was sent to all members,
// while a member that moves is packed, and while it becomes a member here.
type history struct {
	seed    maphash.Seed
	order   [64]sync.Mutex // of rooms, by the hash of the name. Taken first
	publish sync.Mutex     // messages of this process are numbered and published in order
	mover   websocket.Mover
	transit time.Duration // the constant; longer in tests, for slow machines

	mu      sync.Mutex // guards the rest
	limit   int        // messages
	most    int        // bytes
	began   time.Time  // messages from before may not have come
	ring    []kept
	first   uint64 // the oldest message; they are counted from 1
	last    uint64
	bytes   int
	sources []source      // sources[0] is this process
	changed chan struct{} // closed when there is a message more; nil: none waits
}

// A kept is a message of the history.
type kept struct {
	room     string
	mark     mark
	prepared *websocket.Prepared
}

// size is the memory that m takes.
func (m *kept) size() int { return len(m.prepared.Data()) + len(m.room) + overhead }

// A source is a process that publishes.
type source struct {
	mark              // its last message
	at      time.Time // when that came
	evicted uint64    // its last message that is not in the history, or never was
	awaited uint64    // what is not here up to this one does not come any more
}

func newHistory(limit, most int) *history {
	limit = min(limit, max(most/overhead, 1)) // so that places without a message take no memory beyond most
	h := &history{seed: maphash.MakeSeed(), limit: limit, most: most, began: time.Now(), first: 1, transit: transit}
	h.sources = []source{{mark: mark{run: rand.Uint32()}}}
	h.mover.Hold = h.hold
	return h
}

// stripe returns the place of a room in order.
func (h *history) stripe(room string) int {
	return int(maphash.String(h.seed, room) % uint64(len(h.order)))
}

// orderOf returns the lock of a room.
func (h *history) orderOf(room string) *sync.Mutex { return &h.order[h.stripe(room)] }

// source returns that of a process; nil: it is not known.
func (h *history) source(run uint32) *source {
	if i := slices.IndexFunc(h.sources, func(s source) bool { return s.run == run }); i >= 0 {
		return &h.sources[i]
	}
	return nil
}

// known returns that of a process, and makes it. If there are too many, it forgets the one
// that was found first, besides this process.
func (h *history) known(run uint32) *source {
	if s := h.source(run); s != nil {
		return s
	}
	if len(h.sources) == maxSources {
		h.sources = slices.Delete(h.sources, 1, 2)
	}
	h.sources = append(h.sources, source{mark: mark{run: run}})
	return &h.sources[len(h.sources)-1]
}

// nextLocked returns the mark of the next message of this process; publish is held.
func (h *history) nextLocked() mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return mark{h.sources[0].run, h.sources[0].number + 1}
}

// add appends a message, and reports whether it is new.
func (h *history) add(m kept) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.known(m.mark.run)
	if m.mark.number <= s.number {
		return false
	}
	if m.mark.number > s.number+1 {
		s.evicted = m.mark.number - 1
	}
	s.number, s.at = m.mark.number, time.Now()
	size := m.size()
	if size > h.most {
		s.evicted = s.number
		return true
	}
	for h.first <= h.last && (h.last+1-h.first == uint64(h.limit) || h.bytes+size > h.most) {
		h.evict()
	}
	h.last++
	if h.last <= uint64(h.limit) {
		h.ring = append(h.ring, m)
	} else {
		*h.at(h.last) = m
	}
	h.bytes += size
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
	return true
}

func (h *history) at(place uint64) *kept { return &h.ring[(place-1)%uint64(h.limit)] }

// evict drops the oldest message.
func (h *history) evict() {
	m := h.at(h.first)
	if s := h.source(m.mark.run); s != nil {
		s.evicted = max(s.evicted, m.mark.number)
	}
	h.bytes -= m.size()
	*m = kept{}
	h.first++
}

// hold is the Hold of a websocket.Mover.
func (h *history) hold(rooms []string) (text string, release func(), ok bool) {
	var stripes []int
	for _, room := range rooms {
		stripes = append(stripes, h.stripe(room))
	}
	slices.Sort(stripes)
	stripes = slices.Compact(stripes)
	held := stripes[:0]
	release = func() {
		for _, i := range held {
			h.order[i].Unlock()
		}
	}
	for _, i := range stripes {
		if !h.order[i].TryLock() {
			release()
			return "", nil, false
		}
		held = append(held, i)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var p position
	for _, s := range h.sources {
		p = append(p, reached{s.mark, time.Since(s.at)})
	}
	return appendPosition(p), release, true
}

func appendPosition(p position) string {
	var text []byte
	for _, m := range p {
		text = appendMark(text, m.mark)
		text = binary.AppendUvarint(text, uint64(min(m.age, transit)/time.Millisecond))
	}
	return string(text)
}

// parsePosition is the reverse of appendPosition.
func parsePosition(text string) (p position, ok bool) {
	for in := []byte(text); len(in) > 0; {
		m, size := cutMark(in)
		age, n := binary.Uvarint(in[size:])
		if size == 0 || n <= 0 || age > uint64(transit/time.Millisecond) || len(p) == maxSources {
			return nil, false
		}
		p, in = append(p, reached{m, time.Duration(age) * time.Millisecond}), in[size+n:]
	}
	return p, true
}

func appendMark(dst []byte, m mark) []byte {
	return binary.AppendUvarint(binary.LittleEndian.AppendUint32(dst, m.run), m.number)
}

// cutMark parses a mark at the beginning of in; size 0: there is none.
func cutMark(in []byte) (m mark, size int) {
	if len(in) < 4 {
		return mark{}, 0
	}
	number, n := binary.Uvarint(in[4:])
	if n <= 0 {
		return mark{}, 0
	}
	return mark{binary.LittleEndian.Uint32(in), number}, 4 + n
}

// await returns when all messages of p have arrived here, as far as they will: those that
// come later would be sent a second time to a member with position p. Messages do not come
// any more that another process has got long ago, or before this one began.
func (h *history) await(p position) {
	var over <-chan time.Time
	for {
		changed := h.lack(p)
		if changed == nil {
			return
		}
		if over == nil {
			timer := time.NewTimer(h.transit)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-over:
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, m := range p {
				s := h.known(m.run)
				s.awaited = max(s.awaited, m.number)
			}
			return
		}
	}
}

// lack returns nil if all messages of p have arrived, or are not awaited, otherwise a
// channel that is closed when there is a message more.
func (h *history) lack(p position) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := time.Since(h.began)
	for _, m := range p {
		if s := h.source(m.run); m.age < min(h.transit, since) && (s == nil || max(s.number, s.awaited) < m.number) {
			if h.changed == nil {
				h.changed = make(chan struct{})
			}
			return h.changed
		}
	}
	return nil
}

// since returns the messages of a room that p does not cover. isWhole is false if others
// have left the history, or never were in it. It looks at no more messages than p does not
// cover, and those between them.
func (h *history) since(room string, p position) (all []*websocket.Prepared, isWhole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var got [maxSources]uint64 // by the place in sources
	left, isWhole := uint64(0), true
	for i, s := range h.sources {
		var isNamed bool
		if got[i], isNamed = h.reachedOf(i, p); isNamed {
			isWhole = isWhole && s.evicted <= got[i]
		}
		left += s.number - min(max(got[i], s.evicted), s.number)
	}
	for place := h.last; left > 0 && place >= h.first; place-- {
		m := h.at(place)
		i := slices.IndexFunc(h.sources, func(s source) bool { return s.run == m.mark.run })
		if i >= 0 && m.mark.number > got[i] {
			left--
			if m.room == room {
				all = append(all, m.prepared)
			}
		}
	}
	slices.Reverse(all)
	return all, isWhole
}

// reachedOf returns the number of the last message of sources[i] that whoever has p has got, and
// whether p names that process. The history that has made p may have forgotten it, as known
// does, if p is full and nothing that p names was found before. mu is held.
func (h *history) reachedOf(i int, p position) (number uint64, isNamed bool) {
	names := func(s source) int {
		return slices.IndexFunc(p, func(m reached) bool { return m.run == s.run })
	}
	if at := names(h.sources[i]); at >= 0 {
		return p[at].number, true
	}
	if i == 0 || len(p) < maxSources || slices.ContainsFunc(h.sources[1:i], func(s source) bool { return names(s) >= 0 }) {
		return 0, false
	}
	return h.sources[i].number, false
}
