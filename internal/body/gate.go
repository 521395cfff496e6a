package body

import (
	"errors"
	"sync"
	"time"
)

// ErrWithheld is the error of a body that its receiver did not ask for.
var ErrWithheld = errors.New("sluice: the body was not asked for")

// A Gate keeps the body of a request back until the server has asked for it with the status
// 100 (RFC 9110 section 10.1.1). The first of Open, Close and the end of Wait decides. Its
// methods, except Wait, may be called concurrently.
type Gate struct {
	// Waits is called by the first Wait, and Continued by Continue; nil: none.
	Waits, Continued func()

	mu      sync.Mutex
	state   gateState
	decided chan struct{} // is closed when state changes
}

type gateState uint8

const (
	gateWaits gateState = iota
	gateOpen
	gateClosed
)

// NewGate returns a Gate that is neither open nor closed.
func NewGate() *Gate { return &Gate{decided: make(chan struct{})} }

// Open lets the body pass.
func (g *Gate) Open() { g.decide(gateOpen) }

// Continue tells Continued that the status 100 has come, and lets the body pass.
func (g *Gate) Continue() {
	defer g.Open() // also if Continued panics: the writing must end
	if g.Continued != nil {
		g.Continued()
	}
}

// Close withholds the body: the server has answered without it, or the request has ended.
func (g *Gate) Close() { g.decide(gateClosed) }

func (g *Gate) decide(state gateState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == gateWaits {
		g.state = state
		close(g.decided)
	}
}

// Wait waits until the Gate is open or closed, and opens it after limit. It returns
// ErrWithheld if the Gate is closed. One goroutine calls it.
func (g *Gate) Wait(limit time.Duration) error {
	if waits := g.Waits; waits != nil {
		g.Waits = nil
		waits()
	}
	select {
	case <-g.decided: // always so after the first part of a body
	default:
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-g.decided:
		case <-timer.C:
			g.Open()
		}
	}
	if g.isClosed() {
		return ErrWithheld
	}
	return nil
}

func (g *Gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state == gateClosed
}

// A HeldUpload is an Upload whose first Read waits at a Gate, for Patience at most.
type HeldUpload struct {
	*Upload
	Gate     *Gate
	Patience time.Duration
}

// Read implements io.Reader. The error is ErrWithheld if Gate is closed.
func (h HeldUpload) Read(p []byte) (int, error) {
	if err := h.Gate.Wait(h.Patience); err != nil {
		return 0, err
	}
	return h.Upload.Read(p)
}

// Close implements io.Closer: it makes a waiting Read return. An Upload that Gate keeps back is not
// closed: the request may be sent again.
func (h HeldUpload) Close() error {
	h.Gate.Close()
	if h.Gate.isClosed() {
		return nil
	}
	return h.Upload.Close()
}
