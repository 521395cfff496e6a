package harness

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// A Timeout is what it says it is, and no net.Error.
type Timeout struct{ IsOne bool }

func (Timeout) Error() string { return "it took too long" }

func (t Timeout) Timeout() bool { return t.IsOne }

// Patience bounds what a test waits for. It is only reached when a test fails.
const Patience = 20 * time.Second

// Receive takes a value that must come soon.
func Receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Patience):
		t.Fatal("nothing came in time")
	}
	return v
}

// Eventually waits for a condition that other goroutines bring about and tell
// nobody about.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !nettest.Poll(Patience, condition) {
		t.Fatalf("not in time: %s", what)
	}
}

// Briefly is a time-out that tests wait for.
const Briefly = 150 * time.Millisecond
