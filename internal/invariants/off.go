//go:build !race

// Package invariants checks what must hold of pooled objects in builds with
// the race detector; in others it costs nothing, neither time nor memory.
package invariants

// Enabled reports whether the checks are made.
const Enabled = false

// Pooled is a part of an object that a pool hands out. Its zero value belongs
// to a caller.
type Pooled struct{}

// Acquired notes that a pool handed the object out.
func (p *Pooled) Acquired() {}

// Released notes that the object goes back to its pool.
func (p *Pooled) Released(string) {}

// Used notes that the object is used.
func (p *Pooled) Used(string) {}
