package fasthttpadaptor

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
)

// requestContext is the context of an http.Request. Unlike its RequestCtx, it
// may be used by any goroutine and at any time. When the handler has returned,
// the context is cancelled and keeps a copy of the current values.
type requestContext struct {
	mu     sync.Mutex
	ctx    *sluice.RequestCtx // nil when the handler has returned
	done   <-chan struct{}
	values []userValue
}

type userValue struct{ key, value any }

// end detaches c from the RequestCtx. It is called once.
func (c *requestContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx.VisitUserValuesAll(func(key, value any) {
		c.values = append(c.values, userValue{key, value})
	})
	c.ctx = nil
}

// Deadline implements context.Context; there is none.
func (c *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.ctx != nil {
			c.done = c.ctx.Done()
		} else {
			closed := make(chan struct{})
			close(closed)
			c.done = closed
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	select {
	case <-c.Done():
		return context.Canceled
	default:
		return nil
	}
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		if key == http.LocalAddrContextKey {
			return c.ctx.LocalAddr()
		}
		return c.ctx.UserValue(key)
	}
	for _, v := range c.values {
		if v.key == key {
			return v.value
		}
	}
	return nil
}
