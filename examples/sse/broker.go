package main

import "sync"

const (
	// kept is how many past events are kept for clients that reconnect.
	kept = 100
	// lag is how many events a subscriber may fall behind.
	lag = 16
)

// A broker sends every event to all its subscribers. It never waits for one: a
// subscriber that is too slow is dropped, and can reconnect with the number of the
// last event that it has seen.
type broker struct {
	mu          sync.Mutex
	last        uint64  // number of the last event
	history     []event // the latest events, oldest first
	subscribers map[*subscription]struct{}
}

// A subscription receives events until it ends or is dropped.
type subscription struct {
	missed []event    // events after the number passed to subscribe
	events chan event // new events; closed when the subscriber was dropped
}

func newBroker() *broker {
	return &broker{subscribers: make(map[*subscription]struct{})}
}

// publish numbers an event and sends it to the subscribers.
func (b *broker) publish(name, data string) (id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	e := event{b.last, name, data}
	if len(b.history) == kept {
		b.history = append(b.history[:0], b.history[1:]...)
	}
	b.history = append(b.history, e)
	for s := range b.subscribers {
		select {
		case s.events <- e:
		default:
			delete(b.subscribers, s)
			close(s.events)
		}
	}
	return e.id
}

// subscribe begins after the event with the number after; with nil, with the next
// event. No event is lost or repeated between missed and events.
func (b *broker) subscribe(after *uint64) *subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &subscription{events: make(chan event, lag)}
	if after != nil {
		for _, e := range b.history {
			if e.id > *after {
				s.missed = append(s.missed, e)
			}
		}
	}
	b.subscribers[s] = struct{}{}
	return s
}

// unsubscribe ends s and returns how many subscriptions are left.
func (b *broker) unsubscribe(s *subscription) (left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subscribers, s)
	return len(b.subscribers)
}
