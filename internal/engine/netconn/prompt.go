package netconn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	// maxPrompts is how many prompts are served in a row before there is a look
	// at the input.
	maxPrompts = 16
	// pollTime is how long that look takes when there is none.
	pollTime = int64(50 * time.Microsecond)
)

// A prompter implements engine.Prompter. It outlives the connection, whose conn
// soon serves another one.
//
// A prompt is a flag, which the connection looks at after it has said that it
// waits, and an interruption of that wait. The flag is set before Prompt looks
// at the state, so one of the two sees the other. Interrupting is a read
// deadline in the past; it spoils nothing as long as the connection knows that
// it may meet one, and that is what the lock is for: with it in hands, and the
// flag down, nobody is about to interrupt.
type prompter struct {
	wanted atomic.Bool

	mu          sync.Mutex
	conn        *conn // nil: the connection has ended
	nc          net.Conn
	interrupted bool // nc's read deadline was moved
}

// Prompter implements engine.Conn. It may be called on any goroutine while c is
// registered.
func (c *conn) Prompter() engine.Prompter {
	if p := c.prompter.Load(); p != nil {
		return p
	}
	p := &prompter{conn: c, nc: c.nc}
	if !c.prompter.CompareAndSwap(nil, p) {
		return c.prompter.Load()
	}
	return p
}

// Prompt implements engine.Prompter.
func (p *prompter) Prompt() {
	if p.wanted.Swap(true) {
		return // whoever set it has interrupted, or is about to
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conn
	if c == nil || !p.wanted.Load() {
		return
	}
	switch c.state.Load() {
	case stateIdle, statePartial, stateHead:
		p.interrupted = true
		_ = p.nc.SetReadDeadline(past())
	}
}

// isPrompted tells whether a prompt has not been honoured yet.
func (c *conn) isPrompted() bool {
	p := c.prompter.Load()
	return p != nil && p.wanted.Load()
}

// ignorePrompt is for those who set nc's read deadline next, while c is busy,
// and cannot have it moved: an interruption that is under way is over when it
// returns, and no other comes.
func (c *conn) ignorePrompt() {
	if c.isPrompted() {
		p := c.prompter.Load()
		p.mu.Lock()
		p.interrupted = false
		p.mu.Unlock()
	}
}

// takePrompt puts the flag down, and undoes the interruption.
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

// servePrompt calls Prompted for a connection that is busy, has its buffers, and
// holds neither input nor output.
func (c *conn) servePrompt() engine.Next {
	c.takePrompt()
	c.busySince = true
	return c.Prompted()
}

// promptedWait ends a wait that must not begin, since there is a prompt.
func (c *conn) promptedWait() engine.Next {
	if !c.wake() {
		return engine.Close
	}
	if c.cold {
		c.cold = false
		c.attachBuffers()
	}
	return c.servePrompt()
}

// armPoll bounds a read that prompts are waiting for. A read whose deadline has
// passed would not look at the socket at all.
func (c *conn) armPoll() {
	c.ignorePrompt()
	c.armExactly(clock.Nanos() + pollTime)
}

// endPrompter cuts the connection's ties with whoever keeps its prompter. c is
// not registered any more.
func (c *conn) endPrompter() {
	p := c.prompter.Swap(&c.driver.silent)
	if p == nil {
		return
	}
	p.mu.Lock()
	p.conn, p.nc = nil, nil
	p.mu.Unlock()
}
