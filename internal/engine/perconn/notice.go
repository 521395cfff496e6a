package perconn

import "sync"

// A notice is a callback that is made at most once, and that can be cancelled:
// after cancel it is neither running nor going to run.
type notice struct {
	mu      sync.Mutex
	f       func()
	running chan struct{} // closed when the callback has returned
}

// set replaces the callback.
func (n *notice) set(f func()) {
	n.mu.Lock()
	n.f = f
	n.mu.Unlock()
}

// fire makes the callback, if it is still wanted, on this goroutine.
func (n *notice) fire() {
	n.mu.Lock()
	f := n.f
	if f == nil {
		n.mu.Unlock()
		return
	}
	n.f = nil
	done := make(chan struct{})
	n.running = done
	n.mu.Unlock()
	defer close(done)
	f()
}

// wanted tells whether fire would make a call.
func (n *notice) wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.f != nil
}

// cancel withdraws the callback and waits for it if it is running.
func (n *notice) cancel() {
	n.mu.Lock()
	n.f = nil
	done := n.running
	n.mu.Unlock()
	if done != nil {
		<-done
	}
}
