package http2

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// openStreams does what a map does, in any order of removals.
func TestOpenStreams(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var o openStreams
	model := make(map[uint32]*Stream)
	next := uint32(1)
	for step := range 20_000 {
		grows := step/1000%2 == 0 // many are open, and few
		if random.IntN(10) < 4 || grows && random.IntN(2) == 0 {
			s := &Stream{id: next}
			o.add(next, s)
			model[next] = s
			next += 2 * (1 + random.Uint32N(3))
		} else if len(model) > 0 {
			id := next - 2*random.Uint32N(min(next/2, 200))
			if s := o.find(id); s != model[id] {
				t.Fatalf("stream %d is %p, want %p", id, s, model[id])
			} else if s != nil {
				if !o.remove(s) || o.remove(s) {
					t.Fatalf("stream %d was not removed once", id)
				}
				delete(model, id)
			}
		}
		if o.count() != len(model) {
			t.Fatalf("%d streams, want %d", o.count(), len(model))
		}
	}
	if o.find(0) != nil || o.find(next) != nil {
		t.Error("streams that were never opened are open")
	}
	newestFirst := slices.Collect(o.each())
	if !slices.IsSortedFunc(newestFirst, func(a, b *Stream) int { return int(b.id) - int(a.id) }) || len(newestFirst) != len(model) {
		t.Errorf("%d streams in a wrong order, or not %d", len(newestFirst), len(model))
	}
	for s := range o.each() { // some of them first, then all
		if s.id%3 == 0 {
			o.remove(s)
			delete(model, s.id)
		}
	}
	for s := range o.each() {
		if model[s.id] != s {
			t.Errorf("the loop returned stream %d, which was removed", s.id)
		}
		o.remove(s)
		delete(model, s.id)
	}
	if len(model) > 0 {
		t.Errorf("the loop left out %d streams", len(model))
	}
	if o.count() != 0 || slices.ContainsFunc(o.all[:cap(o.all)], func(s openStream) bool { return s.stream != nil }) {
		t.Errorf("%d streams after the last removal, or their memory is kept", o.count())
	}
}

// Many streams that come and go in order need no more room than those that are open.
func TestOpenStreamsKeepsLittle(t *testing.T) {
	var o openStreams
	for id := uint32(1); id < 100_001; id += 2 {
		o.add(id, &Stream{id: id})
		if o.count() > 100 {
			o.remove(o.find(id - 200))
		}
	}
	if cap(o.all) > 512 {
		t.Errorf("room for %d of 100 streams", cap(o.all))
	}
}
