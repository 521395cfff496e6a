package fasthttputil

import (
	"io"
	"math"
	"sync"
	"time"
)

// maxBuffered is how many bytes a pipe holds before its writers wait for the
// reader. It bounds the memory that a fast writer can use.
const maxBuffered = 64 << 10

// maxWrites is how many Writes, of any size, a pipe holds without blocking.
// Programs that were written for fasthttp's pipes rely on it.
const maxWrites = 4

// A pipe carries bytes in one direction. Any number of readers and writers may
// use it at once. Bytes are held in pooled chunks: an empty pipe owns none.
type pipe struct {
	mu       sync.Mutex
	readable sync.Cond // signalled when a blocked Read may continue
	writable sync.Cond // signalled when a blocked Write may continue

	head, tail *chunk
	size       int              // unread bytes in the queue
	given      int64            // number of bytes that were ever written
	ends       [maxWrites]int64 // ring: given after each of the last Writes
	next       uint8            // index of the oldest in ends
	closed     bool             // nothing more can be written
	writing    bool             // a blocked Write holds the turn, so that bytes of two Writes never mix

	// The next Write copies directly into lent, the buffer of a blocked Read,
	// without the queue. filled is the number of bytes copied. Only one Read lends
	// its buffer; others may wait at the same time.
	lent    []byte
	filled  int
	readers int // blocked Reads

	readDeadline  deadline
	writeDeadline deadline
}

// isQuiet reports whether the pipe is empty and not closed.
func (p *pipe) isQuiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size == 0 && !p.closed
}

func (p *pipe) init() {
	p.readable.L = &p.mu
	p.writable.L = &p.mu
}

// read waits for bytes and moves as many as fit into dst. After close it returns
// the bytes that were written before, and then io.EOF.
func (p *pipe) read(dst []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readDeadline.expired:
			return 0, ErrTimeout
		case len(dst) == 0:
			return 0, nil
		case p.size > 0:
			n := p.take(dst)
			p.writable.Broadcast()
			if p.size > 0 {
				p.readable.Signal() // put wakes only one reader
			}
			return n, nil
		case p.closed:
			return 0, io.EOF
		}
		if n := p.await(dst); n > 0 {
			return n, nil
		}
	}
}

// await waits until there may be something to read. It returns the number of
// bytes that a Write has copied into dst meanwhile.
func (p *pipe) await(dst []byte) (n int) {
	isLender := p.lent == nil && p.filled == 0
	if isLender {
		p.lent = dst
	}
	p.readers++
	p.readable.Wait()
	p.readers--
	if isLender {
		n = p.filled
		p.lent, p.filled = nil, 0
	}
	return n
}

// write queues all of src, and waits for room where necessary. It returns how
// many bytes were queued before an error.
func (p *pipe) write(src []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.writing && !p.closed && !p.writeDeadline.expired {
		p.writable.Wait()
	}
	if err := p.writeError(); err != nil {
		return 0, err
	}
	written := p.put(src)
	if written == len(src) {
		p.endWrite()
		return written, nil
	}
	p.writing = true
	for written < len(src) {
		p.writable.Wait()
		if err := p.writeError(); err != nil {
			p.endTurn()
			return written, err
		}
		written += p.put(src[written:])
	}
	p.endWrite()
	p.endTurn()
	return written, nil
}

// endWrite records where a Write ends.
func (p *pipe) endWrite() {
	p.ends[p.next] = p.given
	p.next = (p.next + 1) % maxWrites
}

// room returns how many bytes may be queued. The number is not bounded while
// fewer than maxWrites Writes are not completely read.
func (p *pipe) room() int {
	if p.ends[p.next] <= p.given-int64(p.size) {
		return math.MaxInt
	}
	return max(maxBuffered-p.size, 0)
}

// endTurn lets the next waiting Write begin.
func (p *pipe) endTurn() {
	p.writing = false
	p.writable.Broadcast()
}

func (p *pipe) writeError() error {
	if p.closed {
		return ErrConnectionClosed
	}
	if p.writeDeadline.expired {
		return ErrTimeout
	}
	return nil
}

// take moves up to len(dst) queued bytes into dst, and releases empty chunks.
func (p *pipe) take(dst []byte) int {
	n := 0
	for n < len(dst) && p.head != nil {
		c := p.head
		k := copy(dst[n:], c.data[c.start:c.end])
		n += k
		c.start += k
		if c.start < c.end {
			break
		}
		p.head = c.next
		releaseChunk(c)
	}
	if p.head == nil {
		p.tail = nil
	}
	p.size -= n
	return n
}

// put queues as much of src as there is room for, and returns its length.
func (p *pipe) put(src []byte) int {
	given := 0
	room := p.room()
	if p.lent != nil && p.size == 0 {
		given = copy(p.lent, src)
		p.lent, p.filled = nil, given
	}
	if room < len(src)-given {
		src = src[:given+room]
	}
	for rest := src[given:]; len(rest) > 0; {
		if p.tail == nil || p.tail.end == chunkSize {
			p.link(acquireChunk())
		}
		k := copy(p.tail.data[p.tail.end:], rest)
		p.tail.end += k
		rest = rest[k:]
	}
	p.size += len(src) - given
	p.given += int64(len(src))
	switch {
	case len(src) == 0:
	case given > 0 && p.readers > 1:
		p.readable.Broadcast() // Signal could wake another Read than the one that has lent its buffer
	default:
		p.readable.Signal()
	}
	return len(src)
}

func (p *pipe) link(c *chunk) {
	if p.tail == nil {
		p.head = c
	} else {
		p.tail.next = c
	}
	p.tail = c
}

// close closes the direction. Blocked and later writes fail. Reads return what
// is queued, and then io.EOF.
func (p *pipe) close() {
	p.mu.Lock()
	p.closed = true
	p.readDeadline.stop()
	p.writeDeadline.stop()
	p.readable.Broadcast()
	p.writable.Broadcast()
	p.mu.Unlock()
}

func (p *pipe) setReadDeadline(t time.Time) {
	p.mu.Lock()
	if wait := p.readDeadline.set(t); wait > 0 && !p.closed {
		if p.readDeadline.timer == nil {
			p.readDeadline.timer = time.AfterFunc(wait, p.expireRead)
		} else {
			p.readDeadline.timer.Reset(wait)
		}
	}
	p.readable.Broadcast()
	p.mu.Unlock()
}

func (p *pipe) setWriteDeadline(t time.Time) {
	p.mu.Lock()
	if wait := p.writeDeadline.set(t); wait > 0 && !p.closed {
		if p.writeDeadline.timer == nil {
			p.writeDeadline.timer = time.AfterFunc(wait, p.expireWrite)
		} else {
			p.writeDeadline.timer.Reset(wait)
		}
	}
	p.writable.Broadcast()
	p.mu.Unlock()
}

func (p *pipe) expireRead() {
	p.mu.Lock()
	if p.readDeadline.expire() {
		p.readable.Broadcast()
	}
	p.mu.Unlock()
}

func (p *pipe) expireWrite() {
	p.mu.Lock()
	if p.writeDeadline.expire() {
		p.writable.Broadcast()
	}
	p.mu.Unlock()
}
