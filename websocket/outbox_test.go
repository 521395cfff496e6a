package websocket

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestOutboxForgets: an outbox has no references to messages that have left or were dropped.
func TestOutboxForgets(t *testing.T) {
	o := acquireOutbox(&pendingTotal{})
	defer releaseOutbox(o)
	for range 10 {
		o.addShared(Prepare(Text, make([]byte, 100)), false)
	}
	held := func() (n int) {
		for _, w := range o.items[:cap(o.items)] {
			if w.shared != nil {
				n++
			}
		}
		return n
	}
	if o.take(nil, 500); held() != len(o.items) || held() == 0 {
		t.Errorf("%d messages wait, and %d are held", len(o.items), held())
	}
	if o.dropOldest(0, 300); held() != 2 {
		t.Errorf("%d are held, want 2", held())
	}
}

// TestOutboxModel compares an outbox with a slice of frames.
// long: the steps of one model
func TestOutboxModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		total := &pendingTotal{}
		o := acquireOutbox(total)
		type frame struct {
			bytes     []byte
			key       string
			isControl bool
		}
		var model []frame
		size := func() (n int) {
			for _, f := range model {
				n += len(f.bytes)
			}
			return n
		}
		for i := range 200 {
			switch r.IntN(6) {
			case 0, 1:
				p := bytes.Repeat([]byte{byte(i)}, r.IntN(300))
				op := []ws.Opcode{ws.OpText, ws.OpBinary, ws.OpPing}[r.IntN(3)]
				if op == ws.OpPing {
					p = p[:min(len(p), ws.MaxControl)]
				}
				o.add(ws.Head{Opcode: op}, p)
				model = append(model, frame{bytes: ws.AppendFrame(nil, op, p), isControl: op.IsControl()})
			case 2, 3:
				p := PrepareKeyed(fmt.Sprint(r.IntN(3)), Text, bytes.Repeat([]byte{byte(i)}, r.IntN(300)))
				at := slices.IndexFunc(model, func(f frame) bool { return f.key == p.key })
				if isReplaced := r.IntN(2) == 0 && o.replace(p, false, 1<<20); isReplaced {
					if at < 0 {
						t.Fatalf("seed %d: a message was replaced that does not wait", seed)
					}
					model[at].bytes = p.frame
					continue
				}
				o.addShared(p, false)
				model = append(model, frame{bytes: p.frame, key: p.key})
			case 4:
				size, limit, dropped := r.IntN(300), r.IntN(1000), 0
				for at := 0; at < len(model); {
					held := 0
					for _, f := range model {
						held += len(f.bytes)
					}
					if held+size <= limit {
						break
					}
					if model[at].isControl {
						at++
						continue
					}
					model = slices.Delete(model, at, at+1)
					dropped++
				}
				if got := o.dropOldest(size, limit); got != dropped {
					t.Fatalf("seed %d: %d messages were dropped, want %d", seed, got, dropped)
				}
			case 5:
				limit, taken := r.IntN(1000), []byte{}
				for len(model) > 0 && (len(taken) == 0 || len(taken) < limit) {
					taken = append(taken, model[0].bytes...)
					model = model[1:]
				}
				got, hasMore := o.take(nil, limit)
				if !bytes.Equal(got, taken) || hasMore != (len(model) > 0) {
					t.Fatalf("seed %d: took %d bytes, more: %v; want %d, more: %v", seed, len(got), hasMore, len(taken), len(model) > 0)
				}
			}
			if o.bytes != size() || total.bytes.Load() != int64(o.bytes) {
				t.Fatalf("seed %d: %d bytes wait, %d in all; want %d", seed, o.bytes, total.bytes.Load(), size())
			}
		}
		releaseOutbox(o)
		if total.bytes.Load() != 0 || total.outboxes.Load() != 0 {
			t.Fatalf("seed %d: %d bytes remain", seed, total.bytes.Load())
		}
	}
}

// TestOutboxMemory: an outbox that is never empty does not grow.
func TestOutboxMemory(t *testing.T) {
	o := &outbox{total: &pendingTotal{}} // one of the pool may have had many items
	p := make([]byte, 100)
	for range 10 {
		o.add(ws.Head{Opcode: ws.OpBinary}, p)
	}
	for range 100_000 {
		o.add(ws.Head{Opcode: ws.OpBinary}, p)
		o.dropOldest(0, 1000)
		o.add(ws.Head{Opcode: ws.OpBinary}, p)
		_, _ = o.take(nil, 100)
	}
	if cap(o.items) > 100 || cap(o.copies.B) > 16<<10 {
		t.Errorf("%d items and %d bytes are kept", cap(o.items), cap(o.copies.B))
	}
}

// TestReplaceIsBounded: a message does not take the place of a shorter one if there is no
// room for what it is longer.
func TestReplaceIsBounded(t *testing.T) {
	total := &pendingTotal{limit: 200}
	o := acquireOutbox(total)
	defer releaseOutbox(o)
	keyed := func(size int) *Prepared { return PrepareKeyed("k", Binary, make([]byte, size)) }
	o.addShared(keyed(10), false)
	for _, test := range []struct {
		size, limit int
		want        bool
	}{{50, 30, false}, {50, 100, true}, {190, 1000, true}, {210, 1000, false}, {20, 10, true}} {
		before := o.bytes
		if got := o.replace(keyed(test.size), false, test.limit); got != test.want || !got && o.bytes != before || total.bytes.Load() != int64(o.bytes) {
			t.Errorf("%d bytes, limit %d: %v, %d bytes wait", test.size, test.limit, got, o.bytes)
		}
	}
}

// TestPendingTotal: when the limit of all is reached, the largest have no room.
func TestPendingTotal(t *testing.T) {
	total := &pendingTotal{limit: 1000}
	large, small := acquireOutbox(total), acquireOutbox(total)
	defer releaseOutbox(large)
	defer releaseOutbox(small)
	large.add(ws.Head{Opcode: ws.OpBinary}, make([]byte, 900))
	if !total.fits(large.bytes, 90) || total.fits(large.bytes, 200) || !total.fits(small.bytes, 200) || total.fits(small.bytes, 600) {
		t.Error("the limit is not shared")
	}
	if none := (&pendingTotal{}); !none.fits(1<<30, 1) {
		t.Error("no limit is a limit")
	}
}
