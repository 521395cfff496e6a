package perconn

import (
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

const (
	// backgroundSize is how much input is read ahead in order to see whether
	// the peer is still there.
	backgroundSize = 1 << 10
	// deafTime is how long a read may take to notice a passed deadline, before
	// its connection is taken for one that ignores deadlines.
	deafTime = 100 * time.Millisecond
)

// A backgroundReader reads while a Run does not: on the plain path there is no
// other way to learn that the peer is gone. What it reads is the connection's
// next input.
type backgroundReader struct {
	nc       net.Conn
	gone     atomic.Pointer[notice]
	stopping atomic.Bool
	done     chan struct{} // closed when the reader is finished; then:
	data     []byte
	err      error // what the read after data returned; nil: interrupted or full
}

// watchPeerPlain arranges for gone to be fired when a read fails.
func (c *conn) watchPeerPlain(gone *notice) {
	var data []byte
	if r := c.reader; r != nil {
		r.gone.Store(gone)
		select {
		case <-r.done:
			if r.err != nil {
				go gone.fire()
				return
			}
			data = r.data
		default:
			return // it looked at gone after done was seen open, or fires it
		}
	}
	c.armExactly(0) // timers of before must not end the read
	r := &backgroundReader{nc: c.nc, done: make(chan struct{})}
	r.data = append(make([]byte, 0, max(backgroundSize, len(data))), data...)
	r.gone.Store(gone)
	c.reader = r
	go r.loop()
}

func (r *backgroundReader) loop() {
	defer r.finish()
	for len(r.data) < cap(r.data) && !r.stopping.Load() {
		n, err := r.nc.Read(r.data[len(r.data):cap(r.data)])
		r.data = r.data[:len(r.data)+n]
		if err != nil {
			if !isTimeout(err) {
				r.err = err
			}
			return
		}
	}
}

// finish publishes the result before it looks at gone, so that whoever stores
// another gone sees the one or is seen by the other.
func (r *backgroundReader) finish() {
	close(r.done)
	if r.err != nil {
		r.gone.Load().fire()
	}
}

// interruptReader stops the background reader, or leaves it in flight when the
// connection cannot be interrupted: the next read joins it then.
func (c *conn) interruptReader() {
	r := c.reader
	select {
	case <-r.done:
		c.dropReader()
		return
	default:
	}
	if c.deaf || c.noDeadlines {
		return
	}
	r.stopping.Store(true)
	if c.nc.SetReadDeadline(past()) != nil {
		c.noDeadlines = true
		return
	}
	timer := time.NewTimer(deafTime)
	defer timer.Stop()
	select {
	case <-r.done:
		c.dropReader()
	case <-timer.C:
		c.deaf = true
	}
	c.armExactly(0)
}

// dropReader forgets a finished reader that has nothing to tell.
func (c *conn) dropReader() {
	if len(c.reader.data) == 0 && c.reader.err == nil {
		c.reader = nil
	}
}

// endReader is interruptReader for the end of a Run.
func (c *conn) endReader() {
	if c.reader != nil {
		c.interruptReader()
	}
}

// joinReader reads what the background reader has read, waiting for it if it is
// in flight, and then from the connection.
func (c *conn) joinReader(p []byte) (int, error) {
	r := c.reader
	if !r.await(c.readLimit()) {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	if n > 0 {
		c.dropReader()
		return n, nil
	}
	c.reader = nil
	if r.err != nil {
		return 0, r.err
	}
	return c.nc.Read(p)
}

// await waits until the reader is finished. False: limit has passed before.
func (r *backgroundReader) await(limit int64) bool {
	if limit == 0 {
		<-r.done
		return true
	}
	timer := time.NewTimer(time.Duration(limit - clock.Nanos()))
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}
