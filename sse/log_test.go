package sse

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestLog compares a log with a model: events of several processes and topics come in some
// order, some are missing, and clients with any position get what it does not cover.
func TestLog(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLog(1, 1+r.IntN(40), 1<<20)
		type event struct {
			topic string
			mark  mark
		}
		var kept []event
		positions := []position{l.position()}
		numbers := map[uint32]uint64{}
		for range 200 {
			run := uint32(1 + r.IntN(4))
			numbers[run] += 1 + uint64(r.IntN(20)/19)
			e := event{fmt.Sprint(r.IntN(3)), mark{run, numbers[run]}}
			if top, _ := l.add(e.topic, e.mark, &Event{Data: []byte("x")}, 0); top == nil {
				t.Fatal("an event is refused")
			}
			kept = append(kept, e)
			if len(kept) > l.limit {
				kept = kept[1:]
			}
			if r.IntN(10) == 0 {
				positions = append(positions, slices.Clone(l.position()))
			}
			p := slices.Clone(positions[r.IntN(len(positions))])
			if r.IntN(3) == 0 { // of another process, which had them in another order
				i := r.IntN(len(p))
				p[i].number = min(p[i].number+uint64(r.IntN(3)), numbers[p[i].run])
			}
			for topic := range 3 {
				name := fmt.Sprint(topic)
				var want, got []mark
				for _, e := range kept {
					if n, _ := p.find(e.mark.run); e.topic == name && e.mark.number > n {
						want = append(want, e.mark)
					}
				}
				if top := l.topics[name]; top != nil {
					h := &Hub{log: l}
					s := &stream{extra: &extra{}, first: subscription{topic: top, sent: l.before(top, l.unseen(p))}}
					for {
						sub, next, isLost := h.nextLocked(s)
						if isLost {
							t.Fatalf("seed %d: position %v is lost", seed, p)
						}
						if next == 0 {
							break
						}
						sub.sent = next
						if m := l.at(next).mark; !l.covers(p, m) {
							got = append(got, m)
						}
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: position %v gets %v of topic %s, want %v", seed, p, got, name, want)
				}
			}
		}
	}
}

// A position has room for maxMarks processes. Another log may still know one that is missing in
// it, and sends nothing of it again; but what came later is sent.
func TestForgottenInPosition(t *testing.T) {
	for _, count := range []int{maxMarks - 2, maxMarks - 1, maxMarks, maxMarks + 10} {
		here, there := newLog(1, 1000, 1<<20), newLog(2, 1000, 1<<20)
		add := func(m mark, logs ...*log) {
			for _, l := range logs {
				l.add("a", m, &Event{Data: []byte("x")}, 0)
			}
		}
		for n := range uint64(2) {
			for i := range count {
				add(mark{uint32(100 + i), n + 1}, &here, &there)
			}
		}
		add(mark{1, 1}, &here, &there) // there forgets one more process
		id, _, _ := strings.Cut(string(there.at(there.last).raw()), "\n")
		ofID, ok := parsePosition(strings.TrimPrefix(id, "id: "))
		if !ok {
			t.Fatal(id)
		}
		for _, isNew := range []bool{false, true} {
			unseen := here.last + 1
			if isNew {
				add(mark{99, 1}, &here)
			}
			for name, p := range map[string]position{"moved": there.position(), "ID": ofID} {
				if got := here.unseen(p); got != unseen {
					t.Errorf("%d processes, %s: events from %d on are sent, want %d", count, name, got, unseen)
				}
				for sequence := here.first; sequence <= here.last; sequence++ {
					if got, want := here.covers(p, here.at(sequence).mark), sequence < unseen; got != want {
						t.Errorf("%d processes, %s: event %d: the client has it %v, want %v", count, name, sequence, got, want)
					}
				}
				if here.hasGap(p) {
					t.Errorf("%d processes, %s: there is a gap", count, name)
				}
			}
		}
	}
}
