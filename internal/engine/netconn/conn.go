package netconn

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
)

// A conn implements engine.Conn for one connection at a time. The connection's goroutine
// owns everything in it, except for what is atomic. Every idle connection has one: keep
// it small.
type conn struct {
	drive.State // In and Out are nil while the connection is cold
	links
	driver   *driver
	acceptor engine.Acceptor
	nc       net.Conn
	buffers
	file     engine.File // sent after Out; Source nil: none
	packed   *[]byte     // what Unpack makes the protocol of, and what DetachIdle gets; nil: nothing
	memo     engine.Memo // of a protocol that sleeps while the connection rests
	departed func()      // engine.Hooks.Departed; nil: none

	deadline     int64 // of waiting for input, in clock.Nanos; 0: none
	timeout      int64 // what deadline was set to, from the time of setting
	armed        int64 // the read deadline set on nc; 0: none of ours; see unknown
	hotUntil     int64 // when to check whether buffers are released; 0: not
	writeTimeout int64
	writeArmed   int64 // the write deadline set on nc; 0: none

	reader   *backgroundReader
	feeder   *feeder                            // of the next write of a protocol that IsDuplex; nil: none yet
	extra    atomic.Pointer[runState]           // what a Run has asked for; nil: nothing
	socket   syscall.RawConn                    // of nc, for WriteReady; nil: not used yet
	prompter atomic.Pointer[prompter]           // nil: not asked for
	proxied  atomic.Pointer[engine.ProxiedConn] // over nc, which is no TLS; nil: no proxy has said anything
	state    atomic.Uint32
	killed   atomic.Bool // it must end as soon as possible

	phase          phase
	timing         timing
	prompts        uint8 // served since the last read
	kind           kind
	activity       activity
	isOurs         bool // only the engine sets deadlines on nc
	awaitsHeader   bool // a proxy may speak first
	wasInterrupted bool // flagInterrupted or flagEvicted was seen, and no read has timed out since
	isStuck        bool // the peer has not accepted the output within the write time-out
	one            [1]byte
	mu             struct {
		sync.Mutex      // guards the making of extra, too
		isReading  bool // a Run's read may wait
	}
}

// runState holds what is rarely asked for during a Run and ends with it. Users may look
// at it after the Run.
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

// newConn returns the conn of a new connection, for which the hook Arrived was called.
func (d *driver) newConn(nc net.Conn, a engine.Acceptor, hooks *engine.Hooks) *conn {
	c := d.conns.get()
	c.ServedBy(c)
	c.driver, c.nc, c.acceptor, c.departed, c.phase = d, nc, a, hooks.Departed, phaseFresh
	c.awaitsHeader = hooks.Proxy != nil
	return c
}

// extras returns c.extra, and makes it if it is nil. During a Run, one goroutine may
// read and another one write.
func (c *conn) extras() *runState {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.extra.Load()
	if run == nil {
		run = &runState{}
		run.isReading.Store(c.mu.isReading)
		c.extra.Store(run)
	}
	return run
}

// setReading notes whether a read of the Run may wait.
func (c *conn) setReading(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.isReading = is
	if run := c.extra.Load(); run != nil {
		run.isReading.Store(is)
	}
}

// LocalAddr implements engine.Conn.
func (c *conn) LocalAddr() net.Addr { return c.NetConn().LocalAddr() }

// RemoteAddr implements engine.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.NetConn().RemoteAddr() }

// NetConn implements engine.Conn. A Close of the result waits until a running Run has
// ended.
func (c *conn) NetConn() net.Conn {
	if proxied := c.proxied.Load(); proxied != nil {
		return proxied
	}
	return c.nc
}

// IsSocket implements engine.Conn.
func (c *conn) IsSocket() bool { return isBare(c.nc) }

// CanMove implements engine.Conn.
func (c *conn) CanMove() bool { return isBare(c.nc) }

// isBare reports whether nc is a stream socket of package net.
func isBare(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn:
		return true
	case *net.UnixConn:
		addr := nc.LocalAddr()
		return addr != nil && addr.Network() == "unix" // the others are for packets
	}
	return false
}

// Target implements engine.Conn.
func (c *conn) Target() engine.Target { return engine.Target{} }

// Workers implements engine.Conn.
func (c *conn) Workers() engine.Workers { return &c.driver.tasks }

// SetWriteTimeout implements engine.Conn.
func (c *conn) SetWriteTimeout(timeout time.Duration) {
	c.writeTimeout = int64(max(min(timeout, longestWait), 0))
}

// OnPeerGone implements engine.Conn.
func (c *conn) OnPeerGone(f func()) {
	gone := &c.extras().gone
	if f == nil {
		gone.Cancel()
		return
	}
	gone.Set(f)
	c.watchPeer(gone)
}

// BeginRun implements drive.Host.
func (*conn) BeginRun() {}

// EndRun implements drive.Host. It ends what the Run has asked for.
func (c *conn) EndRun(next engine.Next) (after engine.Next, isMuch bool) {
	if run := c.extra.Load(); run != nil && c.endExtra(run) && next != engine.Detach && next != engine.CloseLinger {
		next = engine.Close
	}
	if c.killed.Load() {
		c.Fail(engine.ErrShutdown)
		return engine.Abort, false
	}
	return next, next != engine.Abort && (len(c.Out) >= c.driver.options.FlushSize || c.hasFile())
}

// endExtra ends what the Run has asked for, and reports whether the user has closed the
// connection.
func (c *conn) endExtra(run *runState) (wasClosed bool) {
	b := run.blocking.Load()
	if b != nil {
		b.Sever() // its calls look at extra
	}
	run.gone.Cancel()
	c.endReader()
	c.extra.Store(nil)
	if b == nil {
		return false
	}
	// The user's deadlines end with the Run.
	if run.isInterrupted.Load() || b.ReadIsOverridden() {
		c.armExactly(0)
	}
	if b.WriteIsOverridden() {
		c.armWrite(0)
	}
	return b.IsClosed()
}

// Began implements drive.Host.
func (c *conn) Began(isSuccessor bool) {
	if isSuccessor && !c.Can.Has(engine.CanPack) {
		c.setFixed()
	}
}

// isTimeout reports whether err says that a deadline has passed.
func isTimeout(err error) bool {
	if err == os.ErrDeadlineExceeded {
		return true
	}
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// past is a deadline that interrupts a wait.
func past() time.Time { return time.Unix(1, 0) }

// noTime clears a deadline.
func noTime() time.Time { return time.Time{} }
