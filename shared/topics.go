package shared

import "sync"

const (
	topicCount = 1 << 16
	topicWords = topicCount / (8 * wordBytes) // of each process
)

// Topics is a set of numbers for each process, in which the others look up what the process
// is interested in. A number stands for a topic, or for several whose hashes are alike.
//
// Crash rule: a set remains until another process takes the place of its process.
type Topics struct {
	segment *Segment
	cells   []word

	mu     sync.Mutex
	counts []uint32 // how often each number is in this process's set
}

// Topics returns the sets of that name, and empties this process's. Call it once for a
// name in a process. Errors: [ErrName], [ErrFull], [ErrMismatch], [ErrBusy].
func (s *Segment) Topics(name string) (*Topics, error) {
	cells, err := s.open(name, kindTopics, parameters{}, s.layout.lanes*topicWords)
	if err != nil {
		return nil, err
	}
	t := &Topics{segment: s, cells: cells, counts: make([]uint32, topicCount)}
	own := cells[s.lane*topicWords:][:topicWords]
	for i := range own {
		if own[i].Load() != 0 { // memory that was never written to stays unused
			own[i].Store(0)
		}
	}
	return t, nil
}

// Own returns the number of this process's set.
func (t *Topics) Own() int { return t.segment.lane }

// Interest returns the number of a topic. It is the same in all processes.
func (t *Topics) Interest(topic string) int {
	return int(t.segment.hasher.sum([]byte(topic)) % topicCount)
}

// Add adds a number to this process's set.
func (t *Topics) Add(interest int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[interest]++; t.counts[interest] == 1 {
		w, bit := t.at(t.segment.lane, interest)
		w.Or(bit)
	}
}

// Remove removes a number that was added. It stays in the set until it was removed as often
// as it was added.
func (t *Topics) Remove(interest int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[interest]--; t.counts[interest] == 0 {
		w, bit := t.at(t.segment.lane, interest)
		w.And(^bit)
	}
}

// Holds reports whether a number is in a set. What Add has returned from is seen by every
// later call, in all processes. A set that does not exist holds all numbers.
func (t *Topics) Holds(set, interest int) bool {
	if set < 0 || set >= t.segment.layout.lanes {
		return true
	}
	w, bit := t.at(set, interest)
	return w.Load()&bit != 0
}

func (t *Topics) at(set, interest int) (w *word, bit uint64) {
	return &t.cells[set*topicWords+interest/(8*wordBytes)], 1 << (interest % (8 * wordBytes))
}
