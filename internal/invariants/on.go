//go:build race

// Package invariants checks what must hold of pooled objects in builds with
// the race detector; in others it costs nothing, neither time nor memory.
package invariants

import "sync/atomic"

// Enabled reports whether the checks are made, which is so under the race detector. Tests that
// count allocations ask, too: sync.Pool drops objects at random then.
const Enabled = true

// Pooled is a part of an object that a pool hands out. Its zero value belongs
// to a caller.
type Pooled struct {
	released atomic.Bool
}

// Acquired notes that a pool handed the object out.
func (p *Pooled) Acquired() { p.released.Store(false) }

// Released notes that the object goes back to its pool, and panics if it is
// there already: two owners would share it from then on.
func (p *Pooled) Released(what string) {
	if p.released.Swap(true) {
		panic("sluice: " + what + " is released twice")
	}
}

// Used panics if the object is in its pool.
func (p *Pooled) Used(what string) {
	if p.released.Load() {
		panic("sluice: " + what + " is used after its release")
	}
}
