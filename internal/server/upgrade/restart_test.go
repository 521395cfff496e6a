package upgrade

import (
	"testing"
	"time"
)

// TestSpread: the times of connections that were opened one after the other are spread over
// the whole time, in every tenth about as many.
func TestSpread(t *testing.T) {
	const count, over = 10_000, time.Second
	var tenths [10]int
	for i := range uint32(count) {
		at := Spread(i, over)
		if at < 0 || at >= over {
			t.Fatalf("connection %d: %v", i, at)
		}
		tenths[at*10/over]++
		if d := Around(i, over); d < over*8/10 || d > over*12/10 {
			t.Fatalf("connection %d: about %v is %v", i, over, d)
		}
	}
	for i, n := range tenths {
		if n < count/20 || n > count/5 {
			t.Errorf("tenth %d: %d of %d connections", i, n, count)
		}
	}
}

// TestRestart: the times count from the first call.
func TestRestart(t *testing.T) {
	var r Restart
	const begun = 1_000_000
	for i := range uint32(100) {
		if at := r.At(i, time.Second, begun+int64(i)*1000); at != begun+int64(Spread(i, time.Second)) {
			t.Errorf("connection %d: %d", i, at)
		}
	}
}
