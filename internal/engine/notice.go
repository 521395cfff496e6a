package engine

import (
	"sync"
	"sync/atomic"
)

// A Notice is a callback that is called at most once and can be cancelled: after
// Cancel has returned, it neither runs nor will run. Engines use one for
// Conn.OnPeerGone. The zero value has no callback. One goroutine at a time may call Set,
// SetFor and Cancel, any number the others.
//
// Requests set and cancel callbacks that are rarely called, so these two take no lock while none
// has been called: who clears state may use f.
type Notice struct {
	state   atomic.Uint64 // armed(key) while there is a callback; otherwise 0
	f       func()
	mu      sync.Mutex                    // held to take f for a call
	running atomic.Pointer[chan struct{}] // of the last call, closed when it has returned; nil: there was none since Cancel
}

// armed is the state of a Notice with a callback for key.
func armed(key uint64) uint64 { return key<<1 | 1 }

// Set replaces the callback.
func (n *Notice) Set(f func()) { n.SetFor(0, f) }

// SetFor is Set for a callback that FireFor calls with the same key only: a Notice that was
// cancelled may serve another connection, while the end of the last one is still reported. The
// first bit of key does not count.
func (n *Notice) SetFor(key uint64, f func()) {
	if n.state.Load() != 0 {
		n.state.Store(0)
	}
	if n.running.Load() != nil { // FireFor may not have taken f yet
		n.mu.Lock()
		defer n.mu.Unlock()
	}
	n.f = f
	n.state.Store(armed(key))
}

// Fire calls the callback on this goroutine, unless it was called or cancelled
// before.
func (n *Notice) Fire() { n.FireFor(0) }

// FireFor is Fire for what SetFor has set with the key.
func (n *Notice) FireFor(key uint64) {
	if n.state.Load() != armed(key) {
		return
	}
	n.mu.Lock()
	done, last := make(chan struct{}), n.running.Load()
	n.running.Store(&done) // before the state says that f is taken
	if !n.state.CompareAndSwap(armed(key), 0) {
		n.running.Store(last)
		n.mu.Unlock()
		return
	}
	f := n.f
	n.f = nil
	n.mu.Unlock()
	defer close(done)
	f()
}

// Wanted reports whether there is a callback that was not called.
func (n *Notice) Wanted() bool { return n.state.Load() != 0 }

// Cancel removes the callback and waits for it if it is running.
func (n *Notice) Cancel() {
	if state := n.state.Load(); state != 0 && n.state.CompareAndSwap(state, 0) {
		n.f = nil
	}
	if n.running.Load() != nil {
		n.await()
	}
}

// await waits for the call that is running.
func (n *Notice) await() {
	n.mu.Lock()
	done := n.running.Swap(nil)
	n.mu.Unlock()
	if done != nil {
		<-*done
	}
}
