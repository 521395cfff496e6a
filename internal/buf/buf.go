// Package buf holds pools of byte buffers by size. Connections acquire buffers while
// they have work and release them before they wait.
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

// A Buffer is a byte slice from a pool. Its owner may append to B, reslice it and
// replace it. Release returns B to the pool. The zero value is an empty buffer, which
// may be Released too.
type Buffer struct {
	B []byte
}

// pools holds Buffers whose capacity is at least 1<<(minShift+index).
var pools [classes]sync.Pool

// Get returns a buffer with length 0 and at least capacity size. The spare capacity
// contains data of earlier owners.
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

// Release returns the buffer to its pool. The caller must not use b or its bytes
// afterwards.
func (b *Buffer) Release() {
	size := cap(b.B)
	if size >= largeBuffer {
		LetGo(size)
	}
	if size < 1<<minShift || size > 1<<maxShift {
		return
	}
	// A buffer that grew by append goes into the largest class that it can serve.
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
