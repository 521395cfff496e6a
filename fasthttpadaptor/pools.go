package fasthttpadaptor

import "sync"

// copySize is the number of bytes that ReadFrom copies at a time.
const copySize = 32 << 10

// copyBuffers holds the buffers of ReadFrom. Each call of ReadFrom owns one.
var copyBuffers sync.Pool

func acquireCopyBuffer() *[copySize]byte {
	if b, ok := copyBuffers.Get().(*[copySize]byte); ok {
		return b
	}
	return new([copySize]byte)
}

func releaseCopyBuffer(b *[copySize]byte) { copyBuffers.Put(b) }
