package supervise

import "sync"

// mailbox is an unbounded queue. put never waits, so the loop and those that send it
// events cannot block each other.
type mailbox[T any] struct {
	mu    sync.Mutex
	items []T
	wake  chan struct{} // holds a token while there may be items
}

// newMailbox returns an empty mailbox.
func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{wake: make(chan struct{}, 1)}
}

// put adds item at the end.
func (m *mailbox[T]) put(item T) {
	m.mu.Lock()
	m.items = append(m.items, item)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// takeAll returns what was put since the last call, in order.
func (m *mailbox[T]) takeAll() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}
