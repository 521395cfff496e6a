package http2

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A request after a long silence takes a PING with it.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		p.send(settings(nil), p.respond(1, 200, true))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		done = do(c, newRequest("GET", ""))
		p.await("3 ")
		p.await("ping sluiceok")
		time.Sleep(4 * time.Second)
		p.send(h2.AppendPing(nil, healthPing, true))
		time.Sleep(20 * time.Second)
		p.send(p.respond(3, 200, true))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		began := time.Now()
		done = do(c, newRequest("GET", ""))
		p.await("5 ")
		wantError(t, <-done, MaybeProcessed, ErrNoPing)
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("it has taken %v", d)
		}
		p.awaitEnd()
	})
}

// A PING is no reason to end the connection if its request gave up, and its answer was not
// read.
func TestHealthUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		time.Sleep(11 * time.Second)
		r := newRequest("GET", "")
		r.stream.Deadline = in(time.Second)
		done := do(c, r)
		p.await("ping sluiceok")
		wantError(t, <-done, MaybeProcessed, errTimeout)
		p.send(settings(nil), h2.AppendPing(nil, healthPing, true))
		time.Sleep(20 * time.Second)
		done = do(c, newRequest("GET", ""))
		p.await("3 ")
		p.send(p.respond(3, 200, true))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Callers that give up before PingTimeout do not keep a dead connection alive: the second
// one finds that nothing has come since the PING.
func TestHealthOfShortCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c, p := NewConn(&quietConn{netConn: client}, &Config{}, nil), newPeer(t, server)
		go p.read()
		time.Sleep(11 * time.Second)
		for began := time.Now(); ; {
			r := newRequest("GET", "")
			r.stream.Deadline = in(time.Second / 2)
			outcome, err := outcomeOf(t, c.Do(&r.stream))
			if errors.Is(err, ErrNoPing) && outcome == Unsent {
				break
			}
			if !errors.Is(err, errTimeout) || time.Since(began) > 6*time.Second {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			time.Sleep(1200 * time.Millisecond)
		}
		p.awaitEnd()
	})
}

// A PING also goes with a request that waits for long, ever more seldom while it is
// answered.
func TestHealthOfLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		p.send(settings(nil))
		synctest.Wait()
		began := time.Now()
		for _, want := range []time.Duration{10, 40, 160, 320, 320} {
			p.await("ping sluiceok")
			if d := time.Since(began); d != want*time.Second {
				t.Errorf("a PING after %v, want %d s", d, want)
			}
			p.send(h2.AppendPing(nil, healthPing, true))
			synctest.Wait()
			began = time.Now()
		}
		p.await("ping sluiceok")
		wantError(t, <-done, MaybeProcessed, ErrNoPing)
		if d := time.Since(began); d != 325*time.Second {
			t.Errorf("it has taken %v", d)
		}
		p.awaitEnd()
	})
}
