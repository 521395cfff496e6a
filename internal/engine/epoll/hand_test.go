//go:build linux && (amd64 || arm64)

package epoll

import (
	"testing"
	"time"
)

func TestTicks(t *testing.T) {
	const wrap = int64(1<<32) * tick
	for _, now := range []int64{1, tick, 12345 * tick, wrap - 5*tick, wrap, 3*wrap + 17} {
		for _, wait := range []time.Duration{1, time.Millisecond, time.Second, time.Hour, longestWait} {
			deadline := now + int64(wait)
			at := expiryOf(deadline)
			if at == 0 {
				t.Fatalf("deadline %d has no expiry", deadline)
			}
			if !isBefore(tickOf(deadline-1-tick), at) {
				t.Errorf("now %d, wait %v: expires early", now, wait)
			}
			if isBefore(tickOf(deadline+2*tick), at) {
				t.Errorf("now %d, wait %v: expires late", now, wait)
			}
			if back := nanosOf(at, now); back < deadline || back > deadline+2*tick {
				t.Errorf("now %d, wait %v: came back as %d, off by %d", now, wait, back, back-deadline)
			}
		}
	}
	if expiryOf(0) != 0 || nanosOf(0, 99) != 0 {
		t.Error("no deadline is not 0")
	}
}

// The hand plans for the earliest deadline and for nothing else.
func TestHandPlansForTheEarliest(t *testing.T) {
	d := &driver{}
	h := &d.hand
	h.driver = d
	defer h.close()
	far := expiryOf(int64(time.Hour))
	for _, step := range []struct{ expiry, next uint32 }{
		{far, far}, {far + 1000, far}, {far - 1000, far - 1000}, {far, far - 1000},
	} {
		h.mind(step.expiry)
		if got := h.next.Load(); got != step.next {
			t.Errorf("minding %d: the next round is at %d, want %d", step.expiry, got, step.next)
		}
	}
	h.round()
	if got := h.next.Load(); got != 0 {
		t.Errorf("without connections the next round is at %d", got)
	}
}

func TestSelfTest(t *testing.T) {
	if !testTLS() {
		t.Error("crypto/tls does not go on after a read that found nothing: TLS goes to the fallback engine")
	}
}
