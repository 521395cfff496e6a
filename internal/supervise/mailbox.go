package supervise

import "sync"

// mailbox is a queue without a bound: putting never waits, so that the loop and
// those who tell it things cannot block each other.
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

// takeAll returns what has come since the last call, in order.
func (m *mailbox[T]) takeAll() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}
