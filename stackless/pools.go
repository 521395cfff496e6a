package stackless

import "sync"

// calls holds idle *call.
var calls sync.Pool

func acquireCall() *call {
	if c, ok := calls.Get().(*call); ok {
		return c
	}
	return &call{done: make(chan struct{}, 1)}
}

func releaseCall(c *call) {
	c.ctx, c.panicked = nil, nil
	calls.Put(c)
}
