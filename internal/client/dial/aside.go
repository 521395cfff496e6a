package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
)

var errDialerPanicked = errors.New("sluice: the dialer panicked")

// Aside calls a dialer that supports neither contexts nor deadlines. If ctx ends
// first, it returns ctx's error; the dialer keeps running and its connection is
// closed.
func Aside(ctx context.Context, dial func() (net.Conn, error)) (net.Conn, error) {
	dialed := make(chan attempt, 1)
	go func() {
		a := attempt{err: errDialerPanicked}
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("%w: %v", errDialerPanicked, v)
			}
			dialed <- a
		}()
		a.conn, a.err = dial()
	}()
	select {
	case a := <-dialed:
		return a.conn, a.err
	case <-ctx.Done():
	}
	go func() {
		if a := <-dialed; a.conn != nil {
			_ = a.conn.Close() // it came too late
		}
	}()
	return nil, ctx.Err()
}
