package sse

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
