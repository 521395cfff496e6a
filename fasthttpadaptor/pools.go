package fasthttpadaptor

import "sync"

// copySize is how much ReadFrom copies at a time.
const copySize = 32 << 10

// copyBuffers holds the memory that ReadFrom copies through. A buffer belongs
// to one call of ReadFrom.
var copyBuffers sync.Pool

func acquireCopyBuffer() *[copySize]byte {
	if b, ok := copyBuffers.Get().(*[copySize]byte); ok {
		return b
	}
	return new([copySize]byte)
}

func releaseCopyBuffer(b *[copySize]byte) { copyBuffers.Put(b) }
