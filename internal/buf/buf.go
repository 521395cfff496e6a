// Package buf holds pools of byte buffers by size. Connections borrow from it
// while they have work and give back before they wait.
package buf

import (
	"math/bits"
	"sync"
)

const (
	minShift = 9  // 512 B, the smallest class
	maxShift = 20 // 1 MiB, the largest class; larger buffers are left to the GC
	classes  = maxShift - minShift + 1
)

// A Buffer is a byte slice on loan from a pool. The borrower may append to B,
// reslice it and replace it; what B holds when Release is called goes back to
// the pool. The zero value is an empty buffer that may be Released too.
type Buffer struct {
	B []byte
}

// pools keeps Buffers whose capacity is at least 1<<(minShift+index).
var pools [classes]sync.Pool

// Get returns a buffer of length 0 and capacity size or more. Its spare
// capacity holds whatever the last borrower left there.
func Get(size int) *Buffer {
	class := classFor(size)
	if class >= classes {
		return &Buffer{B: make([]byte, 0, size)}
	}
	if b, ok := pools[class].Get().(*Buffer); ok {
		return b
	}
	return &Buffer{B: make([]byte, 0, 1<<(minShift+class))}
}

// Release gives the buffer back. The caller must not use b, nor any slice of
// its bytes, afterwards.
func (b *Buffer) Release() {
	size := cap(b.B)
	if size >= largeBuffer {
		LetGo(size)
	}
	if size < 1<<minShift || size > 1<<maxShift {
		return
	}
	// A buffer that grew by append serves the class it can serve whole.
	class := bits.Len(uint(size)) - 1 - minShift
	b.B = b.B[:0]
	pools[class].Put(b)
}

// ReleaseHeld is Release for a buffer that a connection held while it waited: a
// burst of waiting connections may hold many small ones. See LetGo.
func (b *Buffer) ReleaseHeld() {
	if size := cap(b.B); size < largeBuffer {
		LetGo(size)
	}
	b.Release()
}

// classFor returns the smallest class whose buffers hold size bytes.
func classFor(size int) int {
	if size <= 1<<minShift {
		return 0
	}
	return bits.Len(uint(size-1)) - minShift
}
