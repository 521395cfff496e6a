package servers

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
)

// A Probe measures what the rest of a server's process gets of its CPU: how long a round trip
// on another socket takes, and how late a timer is.
type Probe struct {
	Echo     string // address of what ServeEcho serves, in another process
	Duration time.Duration
}

// A ProbeResult is what was measured.
type ProbeResult struct {
	RoundTrip latency.Histogram // of a byte to the echo and back
	TimerLate latency.Histogram // how much later than a millisecond a sleep ended
}

// run measures. It is to be called in the server's process while the server is
// under load: its goroutines stand for a database client and a timer.
func (p Probe) run() (*ProbeResult, error) {
	conn, err := net.Dial("tcp4", p.Echo)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	result := new(ProbeResult)
	end := time.Now().Add(p.Duration)
	// A round trip that never ends must not be waited for.
	if err := conn.SetDeadline(end.Add(time.Minute)); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	// Each measures once at least, however late it begins.
	wg.Go(func() {
		const period = time.Millisecond
		for before, isFirst := time.Now(), true; isFirst || before.Before(end); before, isFirst = time.Now(), false {
			time.Sleep(period)
			result.TimerLate.Record(time.Since(before) - period)
		}
	})
	wg.Go(func() {
		var ball [1]byte
		for before, isFirst := time.Now(), true; isFirst || err == nil && before.Before(end); before, isFirst = time.Now(), false {
			if _, err = conn.Write(ball[:]); err == nil {
				_, err = io.ReadFull(conn, ball[:])
			}
			result.RoundTrip.Record(time.Since(before))
		}
	})
	wg.Wait()
	return result, err
}

// ServeEcho sends back what it receives on connections to ln, until ctx ends.
func ServeEcho(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // ends with the connection
		}()
	}
}
