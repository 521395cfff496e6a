package netconn

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	// maxPrompts is how many prompts are served in a row before input is read.
	maxPrompts = 16
	// pollTime is how long that read may wait.
	pollTime = int64(50 * time.Microsecond)
)

// A prompter implements engine.Prompter. It outlives the connection, whose conn soon
// serves another one.
//
// A prompt sets wanted, and interrupts the wait by a read deadline in the past. That
// deadline must not end a later read of a connection that does not expect it. Prompt
// therefore sets it with mu held and while wanted is set: after takePrompt, and after
// ignorePrompt, no interruption is on its way.
type prompter struct {
	wanted atomic.Bool

	mu          sync.Mutex
	conn        *conn // nil: the connection has ended
	interrupted bool  // its read deadline was moved
}

// Prompter implements engine.Conn. It may be called on any goroutine while c is
// registered.
func (c *conn) Prompter() engine.Prompter {
	if p := c.prompter.Load(); p != nil {
		return p
	}
	p := &prompter{conn: c}
	if !c.prompter.CompareAndSwap(nil, p) {
		return c.prompter.Load()
	}
	return p
}

// Prompt implements engine.Prompter.
func (p *prompter) Prompt() {
	if p.wanted.Swap(true) {
		return // an earlier call has interrupted, or is about to
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conn
	if c == nil || !p.wanted.Load() {
		return
	}
	if c.state.Load()&(flagWaits|claimed) == flagWaits {
		p.interrupted = true
		_ = c.nc.SetReadDeadline(past())
	}
}

// isPrompted reports whether Prompted must be called.
func (c *conn) isPrompted() bool {
	p := c.prompter.Load()
	return p != nil && p.wanted.Load()
}

// ignorePrompt is called while c is busy, before nc's read deadline is set for a read
// that must not be interrupted: when it returns, no interruption is on its way.
func (c *conn) ignorePrompt() {
	if c.isPrompted() {
		p := c.prompter.Load()
		p.mu.Lock()
		p.interrupted = false
		p.mu.Unlock()
	}
}

// takePrompt clears wanted, and undoes the interruption.
func (c *conn) takePrompt() {
	p := c.prompter.Load()
	p.mu.Lock()
	p.wanted.Swap(false) // sees what was done before the last Prompt
	interrupted := p.interrupted
	p.interrupted = false
	p.mu.Unlock()
	if interrupted {
		c.armExactly(0) // the next wait arms
	}
}

// servePrompt calls Prompted instead of a wait.
func (c *conn) servePrompt() engine.Next {
	if !c.wake() {
		return engine.Close
	}
	c.attachBuffers()
	runtime.Gosched() // the Tasks that are about to end have their output in the same write
	c.takePrompt()
	c.setActive()
	return c.Prompted()
}

// armPoll bounds a read while prompts wait. A read whose deadline has passed would not
// look at the socket at all.
func (c *conn) armPoll() {
	c.ignorePrompt()
	c.armExactly(clock.Nanos() + pollTime)
}

// endPrompter makes the connection's prompter do nothing. c is no longer registered.
func (c *conn) endPrompter() {
	p := c.prompter.Swap(&c.driver.ended)
	if p == nil || p == &c.driver.ended {
		return
	}
	p.mu.Lock()
	p.conn = nil
	p.mu.Unlock()
}
