package engine

import (
	"sync"
	"syscall"
	"testing"
)

// TestHeld: what was recalled is not sent, and what is being sent is not recalled.
func TestHeld(t *testing.T) {
	woken := 0
	h := Held{Wake: func() { woken++ }}
	if h.State() != HeldNot || h.Begin() {
		t.Error("the zero value is held")
	}
	h.Wait()
	if h.Recall() != HeldNot || h.Begin() {
		t.Error("it is sent after Recall")
	}
	h.Wait()
	if h.State() != HeldWaits || !h.Begin() {
		t.Error("it does not wait")
	}
	var recalling sync.WaitGroup
	recalling.Go(func() {
		if s := h.Recall(); s != HeldCut || h.N != 3 || h.Errno != syscall.EPIPE {
			t.Errorf("state %d, %d bytes, %v", s, h.N, h.Errno)
		}
	})
	h.End(HeldCut, 3, syscall.EPIPE)
	recalling.Wait()
	h.Wait()
	h.Begin()
	h.End(HeldSent, 0, 0)
	if h.Recall() != HeldSent || woken != 1 {
		t.Errorf("state %d, woken %d times", h.State(), woken)
	}
}
