//go:build linux && (amd64 || arm64)

package epoll

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A guest is what the net.Conn of Conn.Blocking works on. Handlers may leave
// goroutines behind that still read or write when the Run is over; the conn is
// another connection's soon. So the end of the Run ends their calls, and waits
// for them to leave.
type guest struct {
	conn      *conn
	addresses net.Conn
	signals   *signals
	isOver    atomic.Bool

	reading, writing sync.Mutex // one call of each kind at a time

	mu     sync.Mutex
	inside int
	left   chan struct{} // closed when nobody is inside, once it is over
}

var _ engine.BlockingHost = (*guest)(nil)

// enter counts a call in. False: the Run is over.
func (g *guest) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOver.Load() {
		return false
	}
	g.inside++
	return true
}

func (g *guest) exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.left != nil {
		close(g.left)
	}
}

// end ends the calls that are going on, and returns when there are none.
func (g *guest) end() {
	g.mu.Lock()
	g.isOver.Store(true)
	if g.inside == 0 {
		g.mu.Unlock()
		return
	}
	g.left = make(chan struct{})
	g.mu.Unlock()
	tell(g.signals.input)
	tell(g.signals.output)
	<-g.left
}

// Read implements engine.BlockingHost.
func (g *guest) Read(p []byte) (int, error) { return g.call(&g.reading, g.conn.Read, p) }

// Write implements engine.BlockingHost.
func (g *guest) Write(p []byte) (int, error) { return g.call(&g.writing, g.conn.Write, p) }

func (g *guest) call(kind *sync.Mutex, f func([]byte) (int, error), p []byte) (int, error) {
	if !g.enter() {
		return 0, net.ErrClosed
	}
	defer g.exit()
	kind.Lock()
	defer kind.Unlock()
	if g.isOver.Load() {
		return 0, net.ErrClosed
	}
	n, err := f(p)
	if err != nil && g.isOver.Load() {
		err = net.ErrClosed
	}
	return n, err
}

// LocalAddr implements engine.BlockingHost.
func (g *guest) LocalAddr() net.Addr { return g.addresses.LocalAddr() }

// RemoteAddr implements engine.BlockingHost.
func (g *guest) RemoteAddr() net.Addr { return g.addresses.RemoteAddr() }

// InterruptRead implements engine.BlockingHost.
func (g *guest) InterruptRead(time.Time) { tell(g.signals.input) }

// InterruptWrite implements engine.BlockingHost.
func (g *guest) InterruptWrite(time.Time) { tell(g.signals.output) }
