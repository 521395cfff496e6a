package h2

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

type stream struct{ node Node[stream] }

func newStream(id uint32, p fieldlist.Priority) *stream {
	s := &stream{}
	s.node.Owner, s.node.ID, s.node.priority = s, id, p
	return s
}

// order returns who sends the next n frames.
func order(q *Scheduler[stream], n int) (ids []uint32) {
	for range n {
		node := q.Next()
		if node == nil {
			return append(ids, 0)
		}
		ids = append(ids, node.Owner.node.ID)
	}
	return ids
}

// RFC 9218 section 10.
func TestScheduler(t *testing.T) {
	urgent := func(u uint8) fieldlist.Priority { return fieldlist.Priority{Urgency: u} }
	parts := func(u uint8) fieldlist.Priority { return fieldlist.Priority{Urgency: u, IsIncremental: true} }
	for _, c := range []struct {
		name    string
		streams []*stream // in the order of Push
		want    []uint32
	}{
		{"none", nil, []uint32{0}},
		{"the more urgent first", []*stream{newStream(1, urgent(4)), newStream(3, urgent(0)), newStream(5, urgent(3))}, []uint32{3, 3, 3}},
		{"one after the other", []*stream{newStream(5, urgent(3)), newStream(1, urgent(3)), newStream(7, urgent(3)), newStream(3, urgent(3))}, []uint32{1, 1, 1}},
		{"in turn", []*stream{newStream(5, parts(3)), newStream(1, parts(3)), newStream(7, parts(3))}, []uint32{5, 1, 7, 5, 1, 7}},
		{"both", []*stream{newStream(1, urgent(3)), newStream(3, parts(3)), newStream(5, parts(3)), newStream(7, urgent(3))}, []uint32{1, 3, 1, 5, 1, 3}},
		{"every 16th for the lowest", []*stream{newStream(1, urgent(0)), newStream(3, parts(5)), newStream(5, parts(7)), newStream(7, parts(7))},
			slices.Concat(slices.Repeat([]uint32{1}, 15), []uint32{5}, slices.Repeat([]uint32{1}, 15), []uint32{7}, slices.Repeat([]uint32{1}, 15), []uint32{5})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q Scheduler[stream]
			for _, s := range c.streams {
				q.Push(&s.node)
				q.Push(&s.node) // does nothing
				if !s.node.IsQueued() || q.IsEmpty() {
					t.Fatal("not queued")
				}
			}
			if got := order(&q, len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("got %d\nwant %d", got, c.want)
			}
			for _, s := range c.streams {
				q.Remove(&s.node)
				q.Remove(&s.node) // does nothing
			}
			if !q.IsEmpty() || q.Next() != nil {
				t.Error("not empty")
			}
		})
	}
}

func TestSchedulerPlace(t *testing.T) {
	var q Scheduler[stream]
	a, b := newStream(1, fieldlist.Priority{Urgency: 3}), newStream(3, fieldlist.Priority{Urgency: 3})
	q.Push(&a.node)
	q.Push(&b.node)
	q.Place(&b.node, fieldlist.Priority{Urgency: 2})
	if got := order(&q, 2); !slices.Equal(got, []uint32{3, 3}) || b.node.Priority().Urgency != 2 {
		t.Error(got)
	}
	q.Remove(&b.node)
	q.Place(&b.node, fieldlist.Priority{Urgency: 255}) // out of range
	if b.node.IsQueued() || b.node.Priority().Urgency != fieldlist.LowestUrgency {
		t.Error("a stream that does not wait is queued")
	}
}

// The lists agree with a model whatever happens.
func TestSchedulerAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var q Scheduler[stream]
		var streams []*stream
		for i := range 20 {
			streams = append(streams, newStream(uint32(2*i+1), fieldlist.Priority{Urgency: uint8(random.IntN(8)), IsIncremental: random.IntN(2) == 0}))
		}
		for range 200 {
			s := streams[random.IntN(len(streams))]
			switch random.IntN(4) {
			case 0:
				q.Remove(&s.node)
			case 1:
				q.Place(&s.node, fieldlist.Priority{Urgency: uint8(random.IntN(8)), IsIncremental: random.IntN(2) == 0})
			case 2:
				q.Push(&s.node)
			default:
				checkNext(t, &q, streams)
			}
		}
	}
}

func checkNext(t *testing.T, q *Scheduler[stream], streams []*stream) {
	t.Helper()
	var waiting []*stream
	for _, s := range streams {
		if s.node.IsQueued() {
			waiting = append(waiting, s)
		}
	}
	isLowest := q.turn == starvationTurn-1
	got := q.Next()
	if len(waiting) == 0 {
		if got != nil || !q.IsEmpty() {
			t.Fatal("a stream that does not wait is next")
		}
		return
	}
	byUrgency := func(a, b *stream) int { return cmp.Compare(a.node.priority.Urgency, b.node.priority.Urgency) }
	want := slices.MinFunc(waiting, byUrgency).node.priority.Urgency
	if isLowest {
		want = slices.MaxFunc(waiting, byUrgency).node.priority.Urgency
	}
	if got == nil || !got.IsQueued() || got.priority.Urgency != want {
		t.Fatalf("got %+v, want urgency %d", got, want)
	}
	for _, s := range waiting {
		p := s.node.priority
		if p == got.priority && !p.IsIncremental && s.node.ID < got.ID {
			t.Fatalf("%d before %d", got.ID, s.node.ID)
		}
	}
}

// No stream waits for ever: with every urgency at once, each of the lowest has its turn.
func TestNoStreamStarves(t *testing.T) {
	var q Scheduler[stream]
	for i := range uint32(8) {
		q.Push(&newStream(2*i+1, fieldlist.Priority{Urgency: uint8(i), IsIncremental: true}).node)
	}
	last := newStream(99, fieldlist.Priority{Urgency: 7, IsIncremental: true})
	q.Push(&last.node)
	if got := order(&q, 2*starvationTurn); !slices.Contains(got, 99) {
		t.Error(got)
	}
}

func TestSchedulerAllocatesNothing(t *testing.T) {
	var q Scheduler[stream]
	s := newStream(1, fieldlist.DefaultPriority())
	if n := testing.AllocsPerRun(100, func() {
		q.Push(&s.node)
		q.Place(&s.node, fieldlist.Priority{IsIncremental: true})
		q.Remove(q.Next())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScheduler(b *testing.B) {
	var q Scheduler[stream]
	for i := range uint32(100) {
		q.Push(&newStream(2*i+1, fieldlist.Priority{Urgency: uint8(i & 7), IsIncremental: i&8 == 0}).node)
	}
	b.ReportAllocs()
	for b.Loop() { // a stream ends, another begins
		n := q.Next()
		q.Remove(n)
		q.Push(n)
	}
}
