package sse

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/recall"
)

// TestRecall: a Hub that begins gets the history of the others, whole events in order, in
// several pages, and those of processes that have gone.
func TestRecall(t *testing.T) {
	m := &mesh{}
	one := start(t, sluice.EngineAuto, Options{Name: "x", Backplane: m.plane(t)})
	c := one.open("a", "")
	want := []Event{{Name: "n", Data: []byte("1")}, {Data: []byte("two\nlines\n")}, {Name: "e"}}
	for range 300 {
		want = append(want, Event{Data: make([]byte, 1000)})
	}
	for i := range want[3:] {
		want[i+3].Data = fmt.Appendf(nil, "%01000d", i)
	}
	for _, e := range want {
		if err := one.hub.Publish("a", e); err != nil {
			t.Fatal(err)
		}
	}
	two := start(t, sluice.EngineAuto, Options{Name: "x", Backplane: m.plane(t)})
	eventually(t, "the second has all", func() bool { return two.hub.Stats().Events == len(want) })
	m.mu.Lock()
	clear(m.planes[0].joined) // the first has gone
	m.mu.Unlock()
	three := start(t, sluice.EngineAuto, Options{Name: "x", History: 100, Backplane: m.plane(t)})
	if e, err := c.Next(); err != nil || e.Name != "n" {
		t.Fatalf("%+v, %v", e, err)
	}
	again := two.open("a", c.LastID())
	for i, want := range want[1:] {
		if e, err := again.Next(); err != nil || e.Name != want.Name || string(e.Data) != string(want.Data) {
			t.Fatalf("event %d: %+v, %v", i, e, err)
		}
	}
	late := three.open("a", c.LastID()) // its history is too short
	for i, want := range append([]Event{{Name: GapEvent, Data: []byte(gapText)}}, want[len(want)-100:]...) {
		if e, err := late.Next(); err != nil || e.Name != want.Name || string(e.Data) != string(want.Data) {
			t.Fatalf("event %d: %+v, %v", i, e, err)
		}
	}
}

// TestRecallOfLost: events that were lost on the way come later, once.
func TestRecallOfLost(t *testing.T) {
	m := &mesh{}
	one := start(t, sluice.EngineAuto, Options{Name: "x", Backplane: m.plane(t)})
	two := start(t, sluice.EngineAuto, Options{Name: "x", Backplane: m.plane(t)})
	c := two.open("a", "")
	one.publish("a", "1")
	c.want("1")
	break1 := func(isJoined bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.planes[1].joined["sse:x"] = isJoined
	}
	break1(false)
	one.publish("a", "2")
	one.publish("b", "3")
	break1(true)
	one.publish("a", "4") // a number is missing before it
	c.want("2", "4")
	break1(false)
	one.publish("a", "5")
	break1(true)
	m.planes[1].receiver.Gap("") // nothing comes after it
	c.want("5")
}

// TestRecallBounds: a process that answers wrongly changes nothing, and what it sends is bounded.
func TestRecallBounds(t *testing.T) {
	h, err := New(Options{History: 10_000, HistoryBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	r := recalled{h}
	for i := range 2000 {
		r.Take(appendMessage(nil, message{topic: "a", mark: mark{7, uint64(i + 1)}, event: Event{Data: make([]byte, 1000)}}))
	}
	if s := h.Stats(); s.HistoryBytes > 64<<10 {
		t.Errorf("%+v", s)
	}
	var many []recall.Cursor
	for i := range uint32(10_000) {
		many = append(many, recall.Cursor{Run: i + 100, Number: 1})
	}
	r.Reach(append(many, recall.Cursor{Run: 7, Number: 3, Evicted: 2}))
	if got := r.Cursors(); len(got) > maxMarks || !slices.ContainsFunc(got, func(c recall.Cursor) bool { return c.Run == 7 && c.Number == 2000 }) {
		t.Errorf("%d cursors", len(got))
	}
	messages, isLast := r.Page(nil, 10_000)
	if len(messages) == 0 || len(messages) > 10 || isLast {
		t.Errorf("%d messages, %v", len(messages), isLast)
	}
}
