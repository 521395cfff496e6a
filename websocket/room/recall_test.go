package room

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluicehttp/sluice/internal/process/recall"
)

// TestRecall: a hub that begins has the messages from before it, of all processes, also for
// positions from before it; what was lost on the way comes later.
func TestRecall(t *testing.T) {
	a, b := queues(t)
	one := newHub(t, Options{Backplane: a, History: 1000})
	for i := range 500 {
		one.Broadcast(fmt.Sprint("room", i%2), text(fmt.Sprintf("%0600d", i)))
	}
	two := newHub(t, Options{Backplane: b, History: 1000})
	two.recall.Await(context.Background())
	p := position{{mark: mark{one.history.sources[0].run, 10}}}
	missed, isWhole := two.history.since("room1", p)
	if !isWhole || len(missed) != 245 || string(missed[0].Data()) != fmt.Sprintf("%0600d", 11) {
		t.Fatalf("%d messages, %v", len(missed), isWhole)
	}
	b.joined.Store(false)
	one.Broadcast("room1", text("lost"))
	b.joined.Store(true)
	one.Broadcast("room1", text("later"))
	receiver{one}.Gap("") // it waits for the answer of two, so what it has sent is there
	one.recall.Await(context.Background())
	two.recall.Await(context.Background())
	missed, isWhole = two.history.since("room1", position{{mark: mark{p[0].run, 500}}})
	if !isWhole || len(missed) != 2 || string(missed[0].Data()) != "lost" {
		t.Errorf("%d messages, %v", len(missed), isWhole)
	}
}

// TestRecallBounds: a process that answers wrongly changes nothing, and what it sends is bounded.
func TestRecallBounds(t *testing.T) {
	h := newHub(t, Options{History: 100_000, HistoryBytes: 64 << 10})
	r := recalled{h}
	for i := range 2000 {
		r.Take(encode(text(fmt.Sprintf("%01000d", i)), mark{7, uint64(i + 1)}, "room"))
	}
	if h.history.bytes > 64<<10 {
		t.Errorf("%d bytes", h.history.bytes)
	}
	for i := range uint32(1000) {
		r.Reach([]recall.Cursor{{Run: i + 100, Number: 1}, {Run: 7, Number: 3}})
	}
	if got := r.Cursors(); len(got) > maxSources || got[1] != (recall.Cursor{Run: 7, Number: 2000, Evicted: got[1].Evicted}) {
		t.Errorf("%d cursors, %v", len(got), got[1])
	}
	for _, damaged := range []string{"", "\x02", "\x01\x01\x00x", "\xf4"} {
		r.Take([]byte(damaged))
	}
	if messages, isLast := r.Page(nil, 5000); len(messages) == 0 || len(messages) > 5 || isLast {
		t.Errorf("%d messages, %v", len(messages), isLast)
	}
}
