//go:build linux && (amd64 || arm64)

package core

import (
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// client returns a socket of a client that may be held, and counts when it is woken.
func (b *batching) client(t *testing.T, woken *int) *engine.Held {
	t.Helper()
	return &engine.Held{FD: int(b.connect(t)), Wake: func() { *woken++ }}
}

// What clients send is sent with the answers, unless their sockets have unread bytes, are
// closed, or it was recalled.
func TestClientsSendInBatches(t *testing.T) {
	for _, alone := range []bool{false, true} {
		b := newBatching(t, 1)
		b.loop.queue.isSpare = true
		woken := 0
		good, spoken, closed, recalled := b.client(t, &woken), b.client(t, &woken), b.client(t, &woken), b.client(t, &woken)
		all := []*engine.Held{good, spoken, closed, recalled}
		_, _ = syscall.Write(b.peers[int32(spoken.FD)], []byte("unasked"))
		_ = syscall.Shutdown(b.peers[int32(closed.FD)], syscall.SHUT_WR)
		var answered int32
		if !alone {
			answered = b.connect(t)
			b.answer(answered, "answer")
		}
		for i, h := range all {
			if !b.loop.queue.Hold(h, []byte("ask")) || h.State() != engine.HeldWaits {
				t.Fatalf("%d is not taken", i)
			}
			if h == recalled {
				h.Recall()
			}
			if alone {
				b.sendBatches()
			}
		}
		b.sendBatches()
		for i, want := range []engine.HeldState{engine.HeldSent, engine.HeldNotQuiet, engine.HeldNotQuiet, engine.HeldNot} {
			text := map[bool]string{true: "ask", false: ""}[want == engine.HeldSent]
			if got := b.received(int32(all[i].FD)); all[i].State() != want || got != text {
				t.Errorf("alone %v, %d: state %d, %q", alone, i, all[i].State(), got)
			}
		}
		if woken != 2 || b.loop.queue.hasUnsent() {
			t.Errorf("alone %v: woken %d times", alone, woken)
		}
		if !alone && b.received(answered) != "answer" {
			t.Error("the answer is lost")
		}
	}
}

// A client learns that there is no room for its bytes.
func TestClientWithoutRoom(t *testing.T) {
	b := newBatching(t, 1)
	b.loop.queue.isSpare = true
	woken := 0
	h, other := b.client(t, &woken), b.client(t, &woken)
	b.fill(int32(h.FD))
	b.loop.queue.Hold(h, []byte("ask"))
	b.loop.queue.Hold(other, []byte("ask"))
	b.sendBatches()
	if h.State() != engine.HeldCut || h.N != 0 || h.Errno != syscall.EAGAIN || other.State() != engine.HeldSent || woken != 1 {
		t.Errorf("state %d, %d bytes, %v; the other %d; woken %d times", h.State(), h.N, h.Errno, other.State(), woken)
	}
}

// Nothing is taken unless a worker is about to send, or if it is long, or handlers are slow.
func TestHoldRefuses(t *testing.T) {
	b := newBatching(t, 1)
	q := &b.loop.queue
	woken := 0
	h := b.client(t, &woken)
	for what, c := range map[string]struct {
		set func()
		out string
	}{
		"no spare worker": {func() {}, "ask"},
		"too long":        {func() { q.isSpare = true }, strings.Repeat("a", longestHeld+1)},
		"slow handlers":   {func() { q.isSpare, q.plainly = true, 1 }, "ask"},
	} {
		q.isSpare, q.plainly = false, 0
		if c.set(); b.loop.queue.Hold(h, []byte(c.out)) || h.State() != engine.HeldNot {
			t.Errorf("%s: it is taken", what)
		}
	}
	q.isGathering, q.plainly, q.isSpare = true, 0, false
	if !b.loop.queue.Hold(h, []byte("ask")) {
		t.Error("a worker that gathers does not take it")
	}
	b.sendBatches()
}

// A handler whose request is over may go on after the end of the loop. The race detector looks on.
func TestHoldAfterTheEnd(t *testing.T) {
	b := newBatching(t, 1)
	h := b.client(t, new(int))
	ended := make(chan bool)
	go func() { ended <- b.loop.queue.Hold(h, []byte("ask")) }()
	b.loop.closeBatches()
	if <-ended || h.State() != engine.HeldNot {
		t.Error("it is taken")
	}
}

// While handlers wait, the worker that takes the last connection wakes another one, which sends
// what both leave.
func TestLastConnectionHasASpareWorker(t *testing.T) {
	for what, c := range map[string]struct {
		workers, plainly int
		want             bool
	}{
		"a handler waits": {3, 0, true},
		"none waits":      {2, 0, false},
		"slow handlers":   {3, 1, false},
	} {
		b := newBatching(t, 1)
		q := &b.loop.queue
		idle := &worker{loop: b.loop, more: make(chan struct{}, 1)}
		q.workers, q.plainly, q.keep = c.workers, c.plainly, 2
		q.parkLocked(idle)
		q.ready.push(7)
		fd, ok := q.next(b.worker)
		if fd != 7 || !ok || q.isSpare != c.want || b.mayHold != c.want || len(idle.more) == 1 != c.want {
			t.Errorf("%s: %d, %v; spare %v, may hold %v", what, fd, ok, q.isSpare, b.mayHold)
		}
	}
}
