package fasthttputil

import "sync"

// chunkSize is the size of a chunk in bytes. A request with the fields of a
// browser fits one chunk.
const chunkSize = 4 << 10

// A chunk is a link of a pipe's queue. Its owner is the pipe that it is linked
// into, or the pool.
type chunk struct {
	next  *chunk
	start int // first unread byte of data
	end   int // index after the last unread byte of data
	data  [chunkSize]byte
}

var chunkPool = sync.Pool{New: func() any { return new(chunk) }}

func acquireChunk() *chunk {
	c := chunkPool.Get().(*chunk)
	c.next, c.start, c.end = nil, 0, 0
	return c
}

func releaseChunk(c *chunk) { chunkPool.Put(c) }
