package netconn

import (
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
)

// state says what may be done to a connection from outside.
const (
	stateBusy      uint32 = iota // its goroutine works on it
	stateIdle                    // it waits for input between requests
	statePartial                 // it waits for the rest of a request
	stateHead                    // the same, and its beginning can be given back
	stateEvicted                 // Shutdown wants it closed
	stateTaken                   // DetachIdle wants it, that was idle
	stateTakenHead               // DetachIdle wants it, that was in stateHead
)

// A conn implements engine.Conn for one connection at a time. Everything in it
// belongs to the connection's goroutine, except for what is atomic. There is one
// per idle connection: keep it small.
type conn struct {
	drive.State // In and Out are borrowed; nil while cold
	driver      *driver
	acceptor    engine.Acceptor
	nc          net.Conn // nil: no connection
	buffers
	file *engine.File // comes behind out; nil: there is none

	packed []byte // what the protocol is made from; nil: Open makes it

	deadline     int64 // of waiting for input, in clock.Nanos; 0: none
	armed        int64 // the read deadline set on nc; 0: none, or it passed
	timeout      int64 // what deadline was set to, from the time of setting
	hotUntil     int64 // when to look whether the wait is long
	writeTimeout int64
	writeArmed   int64 // the write deadline set on nc; 0: none

	departed func() // engine.Hooks.Departed, until it is called; nil: nobody asks

	detached net.Conn // what Protocol.Detached is to get
	reader   *backgroundReader
	extra    atomic.Pointer[runState] // what a Run has asked for; nil: nothing

	links    links
	prompter atomic.Pointer[prompter] // nil: nobody asked for it
	state    atomic.Uint32
	shard    uint16
	next     engine.Next // what to do instead of reading on

	killed      atomic.Bool // the connection must end as soon as possible
	poked       atomic.Bool // somebody has interrupted, or is about to
	mayGo       atomic.Bool // DetachIdle may have it
	admitted    bool
	handing     bool // DetachIdle gets it
	registered  bool
	busySince   bool  // there was input since hotUntil was set
	cold        bool  // it waits without a buffer
	isTimed     bool  // a read deadline of ours may be set on nc
	isOurs      bool  // nobody but the engine sets deadlines on nc
	noDeadlines bool  // nc does not have them
	deaf        bool  // nc ignores them
	isStuck     bool  // the peer has not taken what was written within the time-out
	prompts     uint8 // served since the last read
	one         [1]byte
}

// runState holds what is rarely asked for during a Run and ends with it.
type runState struct {
	gone     engine.Notice                       // OnPeerGone
	blocking atomic.Pointer[engine.BlockingConn] // Blocking
	// isReading is set while a read may wait, before it looks at its limit;
	// isInterrupted when its deadline was moved then.
	isReading, isInterrupted atomic.Bool
}

var (
	_ engine.Conn = (*conn)(nil)
	_ drive.Host  = (*conn)(nil)
)

// extras returns c.extra, made if need be. During a Run, one goroutine may read
// and another one write.
func (c *conn) extras() *runState {
	if c.extra.Load() == nil {
		c.extra.CompareAndSwap(nil, &runState{})
	}
	return c.extra.Load()
}

// LocalAddr implements engine.Conn.
func (c *conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr implements engine.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// NetConn implements engine.Conn. Closing the connection that it returns waits
// for a Run that is going on.
func (c *conn) NetConn() net.Conn { return c.nc }

// IsSocket implements engine.Conn.
func (c *conn) IsSocket() bool { return isBare(c.nc) }

// Target implements engine.Conn.
func (c *conn) Target() engine.Target { return engine.Target{} }

// Workers implements engine.Conn.
func (c *conn) Workers() engine.Workers { return &c.driver.tasks }

// ReadInRun implements drive.Host.
func (c *conn) ReadInRun(p []byte) (int, error) { return c.readInRun(p) }

// Write implements engine.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.write(p)
	c.isStuck = err != nil && isTimeout(err)
	return n, err
}

// WriteBuffers implements engine.Conn.
func (c *conn) WriteBuffers(v *net.Buffers) (int64, error) {
	n, err := c.writeBuffers(v)
	c.isStuck = err != nil && isTimeout(err)
	return n, err
}

// SetWriteTimeout implements engine.Conn.
func (c *conn) SetWriteTimeout(timeout time.Duration) {
	c.writeTimeout = max(int64(timeout), 0)
}

// OnPeerGone implements engine.Conn.
func (c *conn) OnPeerGone(f func()) {
	gone := &c.extras().gone
	gone.Set(f)
	c.watchPeer(gone)
}

// isTimeout tells whether err says that a deadline has passed.
func isTimeout(err error) bool {
	if err == os.ErrDeadlineExceeded {
		return true
	}
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// past is a deadline that interrupts whoever waits.
func past() time.Time { return time.Unix(1, 0) }

// noTime clears a deadline.
func noTime() time.Time { return time.Time{} }
