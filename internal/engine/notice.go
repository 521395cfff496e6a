package engine

import "sync"

// A Notice is a callback that is called at most once and can be cancelled: after
// Cancel has returned, it neither runs nor will run. Engines use one for
// Conn.OnPeerGone. The zero value has no callback.
type Notice struct {
	mu      sync.Mutex
	f       func()
	key     uint64        // of SetFor
	running chan struct{} // closed when the callback has returned
}

// Set replaces the callback.
func (n *Notice) Set(f func()) { n.SetFor(0, f) }

// SetFor is Set for a callback that FireFor calls with the same key only: a Notice that was
// cancelled may serve another connection, while the end of the last one is still reported.
func (n *Notice) SetFor(key uint64, f func()) {
	n.mu.Lock()
	n.f, n.key = f, key
	n.mu.Unlock()
}

// Fire calls the callback on this goroutine, unless it was called or cancelled
// before.
func (n *Notice) Fire() { n.FireFor(0) }

// FireFor is Fire for what SetFor has set with the key.
func (n *Notice) FireFor(key uint64) {
	n.mu.Lock()
	f := n.f
	if f == nil || n.key != key {
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

// Wanted reports whether Fire would call the callback.
func (n *Notice) Wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.f != nil
}

// Cancel removes the callback and waits for it if it is running.
func (n *Notice) Cancel() {
	n.mu.Lock()
	n.f = nil
	done := n.running
	n.mu.Unlock()
	if done != nil {
		<-done
	}
}
