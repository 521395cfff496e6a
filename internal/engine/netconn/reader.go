package netconn

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	// backgroundSize is how much input is read ahead to see whether the peer is still
	// there.
	backgroundSize = 1 << 10
	// lateTime is how long a read may take to notice a passed deadline, before the engine
	// assumes that the connection ignores deadlines.
	lateTime = 100 * time.Millisecond
)

// A backgroundReader reads while a Run does not: there is no other way to learn that the
// peer of any net.Conn is gone. What it reads is the connection's next input. A read that
// cannot be interrupted continues, and the next reader waits for it.
type backgroundReader struct {
	nc       net.Conn
	gone     atomic.Pointer[engine.Notice]
	stopping atomic.Bool
	done     chan struct{} // closed when it reads no more
	more     chan struct{} // buffered; receives when data or done changes

	mu   sync.Mutex
	data []byte
	sink func(p []byte) (used int) // gets data first; nil: none
	err  error                     // of the last read, unless it was interrupted; set before done
}

// watchPeer arranges that gone is fired when a read fails.
func (c *conn) watchPeer(gone *engine.Notice) { c.readBehind(gone, nil) }

// readBehind starts the background reader, or makes the running one continue. sink, if
// it is not nil, gets what was read first, on the reader's goroutine.
func (c *conn) readBehind(gone *engine.Notice, sink func(p []byte) (used int)) {
	var data []byte
	if r := c.reader; r != nil {
		r.gone.Store(gone)
		if !r.finished() {
			r.offerTo(sink)
			r.stopping.Store(false)
			// Either it sees that, or it has finished, which is seen here.
			if !r.finished() {
				return
			}
		}
		if r.err != nil {
			go gone.Fire()
			return
		}
		data = r.data
	}
	c.ignorePrompt()
	if c.isOurs || c.armed != 0 || c.isPrompted() {
		c.armExactly(0) // earlier deadlines and prompts must not end the read
	}
	r := &backgroundReader{nc: c.nc, data: data, sink: sink, done: make(chan struct{}), more: make(chan struct{}, 1)}
	r.gone.Store(gone)
	c.reader = r
	go r.loop()
}

func (r *backgroundReader) loop() {
	defer r.finish()
	buffer := make([]byte, backgroundSize)
	r.store(nil, nil)
	for r.room() && !r.stopping.Load() {
		n, err := r.nc.Read(buffer)
		r.store(buffer[:n], err)
		r.notify()
		if err != nil {
			return
		}
	}
}

// store appends what a read has returned, and offers it to the sink.
func (r *backgroundReader) store(p []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = append(r.data, p...)
	if err != nil && !isTimeout(err) {
		r.err = err
	}
	if r.sink != nil && len(r.data) > 0 {
		r.data = r.data[r.sink(r.data):]
	}
}

// offerTo replaces the sink.
func (r *backgroundReader) offerTo(sink func(p []byte) (used int)) {
	r.mu.Lock()
	r.sink = sink
	r.mu.Unlock()
	r.store(nil, nil)
}

// room reports whether reading may continue.
func (r *backgroundReader) room() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.data) < backgroundSize
}

// finish publishes the result before it looks at gone: either readBehind, which replaces
// gone, sees the result, or finish sees the new gone.
func (r *backgroundReader) finish() {
	close(r.done)
	r.notify()
	if r.err != nil {
		r.gone.Load().Fire()
	}
}

func (r *backgroundReader) finished() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *backgroundReader) notify() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// read takes what was read, and waits for it until limit. Nothing and no error means
// that the reader has finished and everything was taken.
func (r *backgroundReader) read(p []byte, limit int64) (int, error) {
	for {
		finished := r.finished() // before the look at data
		r.mu.Lock()
		n := copy(p, r.data)
		r.data = r.data[n:]
		err := r.err
		r.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if finished {
			return 0, err
		}
		if !r.await(limit) {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// rest waits for the reader to end and returns what it has read.
func (r *backgroundReader) rest() []byte {
	<-r.done
	return r.data
}

// await waits for a change. The result false means that limit has passed before.
func (r *backgroundReader) await(limit int64) bool {
	if limit == 0 {
		<-r.more
		return true
	}
	timer := time.NewTimer(time.Duration(limit - clock.Nanos()))
	defer timer.Stop()
	select {
	case <-r.more:
		return true
	case <-timer.C:
		return false
	}
}

// interruptReader stops the background reader. It leaves the reader running if the
// connection cannot be interrupted, or may have deadlines of its owner.
func (c *conn) interruptReader() {
	r := c.reader
	r.stopping.Store(true)
	if r.finished() || c.timing != timed || !c.mayTime() {
		return
	}
	if setReadDeadline(c.nc, past()) != nil {
		c.timing = untimed
		return
	}
	timer := time.NewTimer(lateTime)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		c.timing = late
	}
	c.armExactly(0)
}

// endReader is interruptReader for the end of a Run.
func (c *conn) endReader() {
	if c.reader != nil {
		c.interruptReader()
	}
}

// joinReader reads what the background reader has read or is about to read, and then
// from the connection.
func (c *conn) joinReader(p []byte) (int, error) {
	n, err := c.reader.read(p, c.readLimit())
	if n > 0 || err == os.ErrDeadlineExceeded {
		return n, err
	}
	c.reader = nil
	if err != nil {
		return 0, err
	}
	return c.nc.Read(p)
}
