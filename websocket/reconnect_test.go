package websocket

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
)

// TestKeepWaits: the waits grow, are bounded, and begin again after a connection that has
// lived.
func TestKeepWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := &Conn{host: &host{}, phase: phaseClosed}
		var at []time.Duration
		begun := time.Now()
		dial := func(context.Context) (*Conn, error) {
			at = append(at, time.Since(begun))
			if len(at)%20 == 0 {
				return ended, nil
			}
			return nil, &HandshakeError{Status: 503}
		}
		err := Keep(t.Context(), dial, func(*Conn) error {
			time.Sleep(keepAlive)
			if len(at) < 1000 {
				return errors.New("it has ended")
			}
			return nil
		})
		if err != nil || len(at) != 1000 {
			t.Fatalf("%v after %d attempts", err, len(at))
		}
		var sums [20]time.Duration
		for i := 1; i < len(at); i++ {
			wait := at[i] - at[i-1]
			if i%20 == 0 {
				wait -= keepAlive
			}
			failures := i % 20
			if i < 20 {
				failures--
			}
			if most := min(keepWait<<failures, maxKeepWait); wait > most || wait < 0 {
				t.Fatalf("attempt %d after %v, at most %v is allowed", i, wait, most)
			}
			sums[i%20] += wait
		}
		if sums[1] > sums[4] || sums[4] > sums[8] {
			t.Errorf("the waits do not grow: %v", sums)
		}
	})
}

func TestKeepEnds(t *testing.T) {
	refuse := func(status int) func(context.Context) (*Conn, error) {
		return func(context.Context) (*Conn, error) { return nil, &HandshakeError{Status: status} }
	}
	for _, status := range []int{400, 401, 403, 404, 410} {
		var refused *HandshakeError
		if err := Keep(t.Context(), refuse(status), nil); !errors.As(err, &refused) || refused.Status != status {
			t.Errorf("%d: %v", status, err)
		}
	}
	for _, status := range []int{101, 200, 302, 408, 425, 429, 500, 503} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := Keep(ctx, refuse(status), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d: %v", status, err)
		}
		cancel()
	}
}

// TestKeep: a client comes back after each end, until it is done.
func TestKeep(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		e := &Endpoint{OnMessage: func(c *Conn, m Message) error {
			if string(m.Data) == "end" {
				return &CloseError{Code: CodeServiceRestart}
			}
			return echoMessage(c, m)
		}}
		f := startEndpoint(t, engine, e)
		connections := 0
		err := Keep(t.Context(), func(ctx context.Context) (*Conn, error) { return Dial(ctx, "ws://"+f.addr+"/", nil) }, func(c *Conn) error {
			connections++
			for _, text := range []string{"hello", "end"} {
				if err := c.Write(t.Context(), Text, []byte(text)); err != nil {
					return err
				}
				m, err := c.Read(t.Context())
				if err != nil && CloseCode(err) != CodeServiceRestart {
					t.Errorf("%q, %v", m.Data, err)
				}
				if err != nil && connections < 3 {
					return err
				}
			}
			return nil
		})
		if err != nil || connections != 3 {
			t.Errorf("%v after %d connections", err, connections)
		}
	})
}
