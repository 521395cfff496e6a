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
	isOff bool // the write has returned, or the protocol takes no more
}

// feedMeanwhile arranges that a protocol that IsDuplex is fed while the connection's
// goroutine writes. The caller calls stop after the write.
func (c *conn) feedMeanwhile() *feeder {
	if c.feeder != nil {
		c.feeder.timer.Reset(duplexPatience)
		return c.feeder
	}
	f := &feeder{conn: c, begun: make(chan struct{})}
	c.feeder = f
	f.timer = time.AfterFunc(duplexPatience, f.start)
	return f
}

// stop ends the feeding, and waits for a call of the protocol that is running.
func (f *feeder) stop() {
	if f.timer.Stop() {
		return
	}
	f.conn.feeder = nil // it can begin only once
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
	c.Unread = c.Unread[f.take(c.Unread):]
	if len(c.Unread) == 0 {
		c.readBehind(&engine.Notice{}, f.take)
	}
}

// take gets input of the background reader. It returns how much it has used.
func (f *feeder) take(in []byte) (used int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isOff {
		return 0
	}
	c := f.conn
	c.setActive()
	used, next := c.FeedBlocked(in)
	if next == engine.Abort {
		_ = c.closer(next).Close() // ends the write
	}
	f.isOff = used < len(in) || !c.TakesInput()
	return used
}
