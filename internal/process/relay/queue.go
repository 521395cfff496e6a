package relay

import "sync"

// perMessage is what a Message counts besides its bytes: the entry, and the allocations'
// rounding. So the limit bounds the number of messages, too.
const perMessage = 64

// A queue holds messages until it is full. A Message without Data is a gap.
//
// Invariant: between two gaps there is a message, so there are not many gaps.
type queue struct {
	limit int

	mu    sync.Mutex
	waits []Message
	bytes int // of the messages that wait
}

func (m *Message) size() int { return len(m.Room) + len(m.Data) + perMessage }

// push appends m. It returns false if the queue is full; one message always fits.
func (q *queue) push(m Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes > 0 && q.bytes+m.size() > q.limit {
		return false
	}
	q.waits = append(q.waits, m)
	q.bytes += m.size()
	return true
}

// skip appends a gap of a room, or of any with "". Gaps that follow each other are one.
func (q *queue) skip(room string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.waits); n > 0 && q.waits[n-1].Data == nil {
		if q.waits[n-1].Room != room {
			q.waits[n-1].Room = ""
		}
		return
	}
	q.waits = append(q.waits, Message{Room: room})
}

// pop removes the first entry; false: there is none.
func (q *queue) pop() (m Message, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waits) == 0 {
		return Message{}, false
	}
	m, q.waits[0] = q.waits[0], Message{}
	if m.Data != nil {
		q.bytes -= m.size()
	}
	if q.waits = q.waits[1:]; len(q.waits) == 0 {
		q.waits = nil
	}
	return m, true
}

// take pops entries until they are of so many bytes.
func (q *queue) take(bytes int) (batch []Message) {
	for bytes > 0 {
		m, ok := q.pop()
		if !ok {
			break
		}
		batch = append(batch, m)
		bytes -= m.size()
	}
	return batch
}
