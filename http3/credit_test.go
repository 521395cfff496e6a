package http3

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// Credit costs no packet for each request, and a client that has asked before may still have all
// its streams at once.
func TestCredit(t *testing.T) {
	const streams, requests = 40, 100
	_, addr := serveHTTP3(t, &sluice.Server{Handler: echo}, Config{MaxConcurrentStreams: streams})
	c := dialRaw(t, addr)
	fewest := uint64(1 << 62)
	for range 3 { // a busy machine may need more packets
		before := c.ConnectionStats().PacketsReceived
		for range requests {
			if _, err := c.exchange(get("/")); err != nil {
				t.Fatal(err)
			}
		}
		fewest = min(fewest, c.ConnectionStats().PacketsReceived-before)
	}
	if fewest > requests*3/2 {
		t.Errorf("%d packets for %d answers", fewest, requests)
	}
	held := c.open([]byte{1}) // while there is no pause, at most half of the credit is kept
	for range 3 * streams {
		if _, err := c.exchange(get("/")); err != nil {
			t.Fatal(err)
		}
	}
	held.CancelWrite(0)
	for range streams/8 - 1 { // their credit is kept until the sweep
		if _, err := c.exchange(get("/")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range streams {
		if _, err := c.OpenStreamSync(ctx); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
}
