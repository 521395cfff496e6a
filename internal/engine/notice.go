package engine

import "sync"

// A Notice is a callback that is made at most once, and that can be cancelled:
// after Cancel it is neither running nor going to run. Engines keep one for
// Conn.OnPeerGone. The zero value has no callback.
type Notice struct {
	mu      sync.Mutex
	f       func()
	running chan struct{} // closed when the callback has returned
}

// Set replaces the callback.
func (n *Notice) Set(f func()) {
	n.mu.Lock()
	n.f = f
	n.mu.Unlock()
}

// Fire makes the callback, if it is still wanted, on this goroutine.
func (n *Notice) Fire() {
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

// Wanted tells whether Fire would make a call.
func (n *Notice) Wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.f != nil
}

// Cancel withdraws the callback and waits for it if it is running.
func (n *Notice) Cancel() {
	n.mu.Lock()
	n.f = nil
	done := n.running
	n.mu.Unlock()
	if done != nil {
		<-done
	}
}
