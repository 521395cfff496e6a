package supervise

import "sync"

// An orderQueue holds the orders that the worker has not received yet. Adding one
// never blocks, so a worker that does not receive orders still answers the master's
// probes and handles its signals. An order replaces earlier ones that it makes
// obsolete, so at most two for each slot of the fleet wait.
type orderQueue struct {
	out chan Order // what Worker.Orders returns

	mu      sync.Mutex
	waiting []Order
	isSent  bool // a goroutine moves waiting to out
}

func newOrderQueue() *orderQueue { return &orderQueue{out: make(chan Order)} }

// put adds an order at the end.
func (q *orderQueue) put(o Order) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.waiting[:0]
	for _, earlier := range q.waiting {
		if !o.replaces(earlier) {
			kept = append(kept, earlier)
			continue
		}
		if o.Kind == OrderDrain && (o.Grace == 0 || earlier.Grace > 0 && earlier.Grace < o.Grace) {
			o.Grace = earlier.Grace
		}
		closeFiles(earlier.Files)
	}
	q.waiting = append(kept, o)
	if !q.isSent {
		q.isSent = true
		go q.send()
	}
}

// send delivers the waiting orders, and ends when there are none.
func (q *orderQueue) send() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.isSent = false
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		q.out <- next
	}
}

// replaces reports whether earlier, which was not received, need not be carried
// out once o is.
func (o Order) replaces(earlier Order) bool {
	switch {
	case o.Kind == OrderQuit:
		return true
	case o.Slot != earlier.Slot:
		return false
	}
	return o.Kind == earlier.Kind || o.Kind == OrderRelease && earlier.Kind == OrderAdopt
}
