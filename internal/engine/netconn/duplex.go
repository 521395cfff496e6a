package netconn

import (
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// duplexPatience is how long a write may take before its connection is fed
// meanwhile. Most writes only fill the socket's buffer.
const duplexPatience = 5 * time.Millisecond

// A feeder feeds the protocol of a connection whose own goroutine is in a write. It
// calls the protocol with mu held, so that the write's end waits for the last call.
type feeder struct {
	conn  *conn
	timer *time.Timer   // calls start
	begun chan struct{} // closed when start has returned

	mu    sync.Mutex
	isOff bool // the write has returned, or the protocol wants no more
}

// feedMeanwhile has a protocol that IsDuplex be fed while the connection's goroutine
// writes. The caller calls stop after the write.
func (c *conn) feedMeanwhile() *feeder {
	f := &feeder{conn: c, begun: make(chan struct{})}
	f.timer = time.AfterFunc(duplexPatience, f.start)
	return f
}

// stop ends the feeding, and waits for a call of the protocol that is running.
func (f *feeder) stop() {
	if f.timer.Stop() {
		return
	}
	<-f.begun
	f.mu.Lock()
	f.isOff = true
	f.mu.Unlock()
	f.conn.endReader()
}

// start feeds what is unread, and then what a background reader reads. The
// connection's goroutine touches neither until start has returned.
func (f *feeder) start() {
	defer close(f.begun)
	c := f.conn
	c.unread = c.unread[f.take(c.unread):]
	if len(c.unread) == 0 {
		c.readBehind(&engine.Notice{}, f.take)
	}
}

// take is given input by the background reader. It returns how much it has used.
func (f *feeder) take(in []byte) (used int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isOff {
		return 0
	}
	return f.feed(in)
}

// feed calls Feed until in is used or the protocol wants no more; mu is held.
func (f *feeder) feed(in []byte) (used int) {
	c := f.conn
	for used < len(in) {
		c.fed, c.busySince = true, true
		n, next := c.protocol.Feed(in[used:])
		used += n
		if next != engine.Read {
			c.fedNext = next
		}
		if next == engine.Abort {
			_ = c.closer(next).Close() // ends the write
		}
		if next != engine.Read && next != engine.Run || n == 0 {
			f.isOff = true
			break
		}
	}
	return used
}
