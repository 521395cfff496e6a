package mesh

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxQueue is how many bytes of frames wait for a peer when messages are dropped. The
	// last of them may exceed it, and as many may be being written.
	maxQueue = 1 << 20
	// enough is how many bytes are written without waiting for more.
	enough = 32 << 10
	// keptBuffer is the largest buffer that is kept while nothing waits.
	keptBuffer = 64 << 10
	// leastRead and mostRead bound the size of a read, unless a frame is larger.
	leastRead = 4 << 10
	mostRead  = 64 << 10
)

// A Conn is a stream to another process. Write may wait; Close makes Read and Write return.
type Conn interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// A peer is another process. One goroutine writes to it, one reads from it; the latter
// decides when the peer has gone.
type peer struct {
	mesh *Mesh
	conn Conn

	wake    chan struct{} // holds one: something waits
	settled chan struct{} // closed at its hello, or when it has gone
	gone    chan struct{} // closed when it has gone
	written chan struct{} // closed when nothing more is written

	mu      sync.Mutex
	queue   []byte
	spare   []byte // the other buffer
	lost    lost   // not empty: messages are dropped until the queue is taken
	isEnded bool   // nothing may be put into the queue

	hello     hello // valid when settled is closed and isKnown is true
	isKnown   bool  // it has said hello; only the reader sets it
	interests atomic.Int32
}

func newPeer(m *Mesh, conn Conn) *peer {
	p := &peer{mesh: m, conn: conn, wake: make(chan struct{}, 1), settled: make(chan struct{}), gone: make(chan struct{}), written: make(chan struct{})}
	p.interests.Store(-1)
	return p
}

// put queues a frame, or drops it if the queue is full.
func (p *peer) put(kind frameKind, plane, room string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isEnded {
		return
	}
	if !p.lost.isEmpty() || len(p.queue) >= maxQueue {
		p.lost.add(plane, room)
		return
	}
	p.queue = appendFrame(p.queue, kind, plane, room, data)
	p.wakeWriter()
}

// wakeWriter has the writer take what waits.
func (p *peer) wakeWriter() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wants reports whether the peer may have joined a room of that interest.
func (p *peer) wants(interest int) bool {
	set := p.interests.Load()
	return set < 0 || p.mesh.interests == nil || p.mesh.interests.Holds(int(set), interest)
}

// take returns what waits, nil if nothing does. The result is valid until the next call.
// What was lost since is told to the peer before anything else.
func (p *peer) take() (frames []byte, isLast bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	frames = p.queue
	p.queue, p.spare = p.spare[:0], nil
	if cap(frames) <= keptBuffer {
		p.spare = frames
	}
	if !p.lost.isEmpty() {
		p.queue = p.lost.appendTo(p.queue)
		p.lost = lost{}
		p.wakeWriter()
	}
	return frames, p.isEnded && len(p.queue) == 0
}

// waiting returns how many bytes are queued.
func (p *peer) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// end queues the last frame.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isEnded {
		p.queue, p.lost = p.lost.appendTo(p.queue), lost{}
		p.queue = appendFrame(p.queue, frameBye, "", "", nil)
		p.isEnded = true
		p.wakeWriter()
	}
}

// write sends what is queued until the last frame, or until the peer has gone.
func (p *peer) write() {
	defer close(p.written)
	var last time.Time
	for {
		select {
		case <-p.wake:
		case <-p.gone:
			return
		}
		// Under load one write takes all that came in an interval.
		if wait := p.mesh.interval() - time.Since(last); wait > 0 && p.waiting() < enough {
			time.Sleep(wait)
		}
		frames, isLast := p.take()
		if len(frames) == 0 {
			continue
		}
		if _, err := p.conn.Write(frames); err != nil || isLast {
			p.refuse()
			return
		}
		last = time.Now()
	}
}

// refuse drops what waits, and what would be queued.
func (p *peer) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isEnded = true
	p.queue, p.spare, p.lost = nil, nil, lost{}
}

// read carries out the peer's frames until it has gone.
func (p *peer) read() {
	in, have := make([]byte, leastRead), 0
	isOrderly := false
	for !isOrderly {
		n, err := p.conn.Read(in[have:])
		have += n
		rest, need, isLast, bad := p.frames(in[:have])
		if isOrderly = isLast; bad != nil {
			p.mesh.failed(bad)
			break
		}
		if err != nil {
			break
		}
		in, have = fit(in, rest, need, have == len(in))
	}
	p.mesh.forget(p, isOrderly)
}

// frames carries out the frames in a buffer. rest is the beginning of the next one, which
// has need bytes.
func (p *peer) frames(in []byte) (rest []byte, need int, isLast bool, err error) {
	for {
		f, size, err := parseFrame(in)
		if err != nil || len(in) < size {
			return in, size, false, err
		}
		in = in[size:]
		switch isLast, err = p.carryOut(f); {
		case err != nil || isLast:
			return in, 0, isLast, err
		}
	}
}

// fit moves rest to the beginning of a buffer that has room for need bytes. wasFull asks for
// a larger one.
func fit(in, rest []byte, need int, wasFull bool) (buffer []byte, have int) {
	size := len(in)
	if wasFull {
		size = min(2*size, mostRead)
	}
	if size = max(size, need); need <= mostRead {
		size = min(size, mostRead)
	}
	if size == len(in) {
		return in, copy(in, rest)
	}
	buffer = make([]byte, size)
	return buffer, copy(buffer, rest)
}

// carryOut carries out a frame.
func (p *peer) carryOut(f frame) (isLast bool, err error) {
	if f.kind != frameHello && !p.isKnown { // only this goroutine sets it
		return false, errHello
	}
	switch f.kind {
	case frameHello:
		return false, p.greeted(f.data)
	case frameMessage:
		plane, room := cutTopic(f.topic)
		if to := p.mesh.find(plane); to != nil {
			to.received(room, f.data)
		}
	case frameGap:
		if len(f.topic) == 0 {
			p.mesh.gapOfAny()
			break
		}
		plane, room := cutTopic(f.topic)
		if to := p.mesh.find(plane); to != nil {
			to.gap(room)
		}
	case frameBye:
		return true, nil
	}
	return false, nil
}

// greeted handles a hello.
func (p *peer) greeted(data []byte) error {
	h, err := parseHello(data)
	if err != nil {
		return err
	}
	if p.isKnown {
		return errHello
	}
	p.hello, p.isKnown = h, true
	p.interests.Store(h.interests)
	close(p.settled)
	return nil
}
