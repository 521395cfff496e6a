package mesh

import (
	"slices"
	"sync"
	"testing"
)

// board is the sets of all processes.
type board struct {
	mu   sync.Mutex
	sets [][]int
}

// A boardSet is Interests: a room stands for its first byte.
type boardSet struct {
	*board
	own int
}

func (b *board) enter() *boardSet {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sets = append(b.sets, nil)
	return &boardSet{b, len(b.sets) - 1}
}

func (s *boardSet) Own() int                 { return s.own }
func (s *boardSet) Interest(room string) int { return int((room + " ")[0]) }

func (s *boardSet) Add(interest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[s.own] = append(s.sets[s.own], interest)
}

func (s *boardSet) Remove(interest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.sets[s.own], interest)
	s.sets[s.own] = slices.Delete(s.sets[s.own], at, at+1)
}

func (s *boardSet) Holds(set, interest int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.sets[set], interest)
}

// A message goes to the processes that have joined a room of its interest, and to those
// without Interests; each passes on only what is of its rooms.
func TestInterests(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		var b board
		m.interests = func() Interests { return b.enter() }
		before := &process{}
		before.plane = before.mesh.Plane("p")
		do(t, before.plane.Subscribe(before), before.plane.Join("xylophone"))
		do(t, before.mesh.Start(Options{Slot: 9, Generation: 1, Meet: m.meet, Interests: m.interests}))
		joined, similar, other, from := m.start(t, 0, 1), m.start(t, 1, 1), m.start(t, 2, 1), m.start(t, 3, 1)
		m.interests = nil
		all := m.start(t, 4, 1)
		do(t, joined.plane.Join("x"), similar.plane.Join("xyz"), other.plane.Join("other"), all.plane.Join("y"))
		settle()
		for _, p := range from.mesh.others() {
			if got, want := p.wants('x'), p.hello.slot != 2; got != want {
				t.Errorf("slot %d: %t", p.hello.slot, got)
			}
		}
		do(t, from.plane.Publish("x", []byte("1")), from.plane.Publish("xylophone", []byte("2")))
		settle()
		before.expect(t, "xylophone:2")
		joined.expect(t, "x:1")
		similar.expect(t)
		other.expect(t)
		all.expect(t)
		q := joined.mesh.Plane("q") // of a process that has met the others
		do(t, q.Subscribe(joined), q.Join("x"), joined.plane.Leave("x"))
		if !from.mesh.interests.Holds(1, 'x') {
			t.Error("Leave has left the room of another plane, too")
		}
		do(t, q.Leave("x"))
		if from.mesh.interests.Holds(1, 'x') {
			t.Error("a room is not left")
		}
		do(t, all.plane.Publish("other", []byte("3")))
		settle()
		other.expect(t, "other:3")
	})
}
