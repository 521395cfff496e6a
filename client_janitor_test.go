package sluice

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipeHost is a client whose connections are pipes to somebody who only reads.
func pipeHost(idle time.Duration) *HostClient {
	return &HostClient{
		Addr:                "host.test:80",
		MaxIdleConnDuration: idle,
		Dial: func(string) (net.Conn, error) {
			mine, other := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, other)
				other.Close()
			}()
			return mine, nil
		},
	}
}

// wantIdle fails unless n connections are idle after a time.
func wantIdle(t *testing.T, c *HostClient, after time.Duration, n int) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if idle, open := c.IdleConnsCount(), c.ConnsCount(); idle != n || open != n {
		t.Errorf("%d connections are idle and %d open, want %d", idle, open, n)
	}
}

// TestJanitorClosesInTime: a connection that idles is closed when it has idled for
// MaxIdleConnDuration, no more than two steps of the client's clock earlier, and
// one that is used in between is not.
func TestJanitorClosesInTime(t *testing.T) {
	for _, idle := range []time.Duration{10 * time.Millisecond, 160 * time.Millisecond, 16 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := pipeHost(idle)
			step := max(c.clockStep(), time.Millisecond)
			held(t, c, 2)()
			wantIdle(t, c, idle-4*step, 2)
			held(t, c, 1)() // the other one goes on idling
			wantIdle(t, c, 6*step, 1)
			wantIdle(t, c, idle-8*step, 1) // at twice idle, less six steps
			wantIdle(t, c, 4*step, 0)
			// It begins anew.
			held(t, c, 1)()
			wantIdle(t, c, idle-3*step, 1)
			wantIdle(t, c, 5*step, 0)
		})
	}
}

// TestJanitorWakes: after a time without requests the client's clock goes on with
// the next one, so that connections that are used seldom are not taken for older
// than they are, nor for younger.
func TestJanitorWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 16 * time.Second
		c := pipeHost(idle)
		held(t, c, 1)()
		wantIdle(t, c, 2*time.Second, 1) // the janitor sleeps until the connection expires
		held(t, c, 1)()
		wantIdle(t, c, 10*time.Second, 1)
		held(t, c, 1)() // 12 s
		wantIdle(t, c, idle-2*time.Second, 1)
		wantIdle(t, c, 3*time.Second, 0)
	})
}

// TestJanitorIsGone: without idle connections nothing runs.
func TestJanitorIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeHost(16 * time.Second)
		held(t, c, 1)()
		if c.pool.janitor == nil {
			t.Error("no janitor while a connection idles")
		}
		wantIdle(t, c, 18*time.Second, 0)
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		if c.pool.janitor != nil || c.pool.ticked.Load() != 0 {
			t.Error("the janitor has turns without idle connections")
		}
	})
}

// TestJanitorClockGoesOn: a connection that is used all the time is not taken for
// one that has idled since the first use.
func TestJanitorClockGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials := pipeHost(16*time.Second), 0
		dial := c.Dial
		c.Dial = func(addr string) (net.Conn, error) {
			dials++
			return dial(addr)
		}
		for range 300 {
			held(t, c, 1)()
			time.Sleep(100 * time.Millisecond)
		}
		if dials != 1 {
			t.Errorf("%d connections were made, want 1", dials)
		}
		wantIdle(t, c, 18*time.Second, 0)
	})
}

// TestJanitorWhileInUse: a connection that is in use for long is closed in time
// when it idles again.
func TestJanitorWhileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeHost(16 * time.Second)
		held(t, c, 1)()
		release := held(t, c, 1)
		time.Sleep(5 * time.Second)
		if c.IdleConnsCount() != 0 || c.ConnsCount() != 1 {
			t.Errorf("%d connections idle of %d", c.IdleConnsCount(), c.ConnsCount())
		}
		release()
		wantIdle(t, c, 14*time.Second, 1)
		wantIdle(t, c, 3*time.Second, 0)
	})
}
