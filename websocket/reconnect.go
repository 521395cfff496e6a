package websocket

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluicehttp/sluice"
)

const (
	// keepWait is the longest wait after the first failure; it doubles with each further one.
	keepWait = time.Second
	// maxKeepWait is the longest wait.
	maxKeepWait = 30 * time.Second
	// statusTooEarly is that of RFC 8470.
	statusTooEarly = 425
	// keepAlive is how long a connection lives before which its end is a failure.
	keepAlive = 10 * time.Second
)

// Keep calls dial and passes the connection to serve, again and again. It returns nil when
// serve returns nil, and the error of ctx when that ends: dial and serve should return then.
// It closes the connection when serve has returned.
//
// Between two attempts it waits for a random time, so that many clients do not come back
// together: up to a second after a failure, and up to twice as long after each further one,
// at most 30 seconds. A connection that has lived for 10 seconds is no failure. A refusal that
// will not change ends Keep: a *HandshakeError with a status of 400 to 499, except 408, 425
// and 429.
func Keep(ctx context.Context, dial func(ctx context.Context) (*Conn, error), serve func(c *Conn) error) error {
	for failures := 0; ; failures++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := dial(ctx)
		if err == nil {
			began := time.Now()
			if serve(c) == nil {
				_ = c.Close(CodeNormal, "")
				return nil
			}
			_ = c.Close(CodeGoingAway, "")
			if time.Since(began) >= keepAlive {
				failures = 0
			}
		} else if isFinal(err) {
			return err
		}
		if err := pause(ctx, rand.N(min(keepWait<<min(failures, 10), maxKeepWait))); err != nil {
			return err
		}
	}
}

// isFinal reports whether another attempt would fail as well.
func isFinal(err error) bool {
	var refused *HandshakeError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case sluice.StatusRequestTimeout, statusTooEarly, sluice.StatusTooManyRequests:
		return false
	}
	return refused.Status/100 == 4
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
