package engine

import "sync/atomic"

// A Stage is how far an engine's life is.
type Stage uint32

const (
	// StageServing: connections end for reasons of their own.
	StageServing Stage = iota
	// StageClosing: CloseOnNextResponse was called.
	StageClosing
	// StageShutDown: Shutdown was called.
	StageShutDown
	// StageKilling: Shutdown no longer waits.
	StageKilling
)

// A Life holds the Stage of an engine, which only rises. The zero value is StageServing.
type Life struct{ atomic.Uint32 }

// Has reports whether s was reached.
func (l *Life) Has(s Stage) bool { return l.Load() >= uint32(s) }

// Reach raises the Stage to s, and reports whether it was lower.
func (l *Life) Reach(s Stage) (isFirst bool) {
	for {
		now := l.Load()
		if now >= uint32(s) {
			return false
		}
		if l.CompareAndSwap(now, uint32(s)) {
			return true
		}
	}
}
