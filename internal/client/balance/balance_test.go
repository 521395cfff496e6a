package balance

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a client with a name and a load.
type fake struct {
	name    string
	pending int
}

// PendingRequests implements Client.
func (f *fake) PendingRequests() int { return f.pending }

// newGroup returns a group of clients a, b and c.
func newGroup() (*Group[*fake], []*fake) {
	clients := []*fake{{name: "a"}, {name: "b"}, {name: "c"}}
	g := new(Group[*fake])
	g.Add(clients...)
	return g, clients
}

// picks reports the verdict for n picks, and returns their names.
func picks(t *testing.T, g *Group[*fake], n int, verdict Verdict) (names string) {
	t.Helper()
	for range n {
		p, ok := g.Pick(nil)
		if !ok {
			t.Fatal("no client")
		}
		names += p.Member.Client.name
		p.Report(verdict)
	}
	return names
}

func TestPick(t *testing.T) {
	g, clients := newGroup()
	if got := picks(t, g, 6, Good); got != "abcabc" {
		t.Errorf("equal clients: %s", got)
	}
	clients[0].pending, clients[1].pending = 2, 1
	if got := picks(t, g, 2, Good); got != "cc" {
		t.Errorf("the least load: %s", got)
	}
	p, _ := g.Pick(nil)
	if q, _ := g.Pick([]*Member[*fake]{p.Member}); q.Member.Client.name != "b" {
		t.Errorf("another one than c: %s", q.Member.Client.name)
	}
	if n := g.Remove(func(f *fake) bool { return f != clients[0] }); n != 1 || picks(t, g, 2, Unknown) != "aa" {
		t.Errorf("%d clients are left", n)
	}
	if g.Remove(func(*fake) bool { return true }); g.members.Load() == nil || len(g.all()) != 0 {
		t.Error("clients are left")
	}
	if _, ok := new(Group[*fake]).Pick(nil); ok {
		t.Error("a client of an empty group")
	}
}

// A client that fails again and again is probed after 1, 2, 4 … 30 seconds.
func TestEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clients := newGroup()
		g.Remove(func(f *fake) bool { return f.name == "c" })
		clients[1].pending = 1000 // used only if a is not
		if got := picks(t, g, EjectAfter, Bad); got != "aaa" {
			t.Fatalf("before: %s", got)
		}
		var waits []time.Duration
		for range 7 {
			began := time.Now()
			for picks(t, g, 1, Unknown) == "b" {
				time.Sleep(time.Second / 2)
			}
			waits = append(waits, time.Since(began))
			if got := picks(t, g, 1, Bad); got != "a" {
				t.Fatalf("the probe goes to %s", got)
			}
		}
		const s = time.Second
		if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}; !slices.Equal(waits, want) {
			t.Errorf("probed after %v, want %v", waits, want)
		}
		time.Sleep(MaxEjectTime)
		if got := picks(t, g, 3, Good); got != "aaa" {
			t.Errorf("well again: %s", got)
		}
	})
}

// TestPickBy: the largest weight wins, whatever the load is, until its client is ejected or
// down; then the others get its requests, and the first one after that is its probe.
func TestPickBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clients := newGroup()
		clients[1].pending = 100
		preferB := func(*fake) uint64 { return 7 }
		if p, _ := g.PickBy(nil, preferB); p.Member.Client.name == "b" {
			t.Error("of equal weights, not the least load")
		}
		preferB = func(f *fake) uint64 {
			if f.name == "b" {
				return 1
			}
			return 0
		}
		pick := func(verdict Verdict) string {
			p, _ := g.PickBy(nil, preferB)
			p.Report(verdict)
			return p.Member.Client.name
		}
		for range EjectAfter {
			if got := pick(Bad); got != "b" {
				t.Errorf("%s has the largest weight", got)
			}
		}
		if got := pick(Good); got == "b" || g.Members()[1].IsUp() {
			t.Error("b is not ejected")
		}
		time.Sleep(EjectTime)
		if first, second := pick(Good), pick(Good); first != "b" || second != "b" || !g.Members()[1].IsUp() {
			t.Errorf("after the time: %s, %s", first, second)
		}
		g.Members()[1].SetDown(true)
		if got := pick(Good); got == "b" || g.Members()[1].IsUp() {
			t.Error("b is not down")
		}
		g.Remove(func(f *fake) bool { return f.name != "b" })
		if got := pick(Good); got != "b" || g.Members()[0].IsUp() {
			t.Error("b is alone, and down after an answer")
		}
		g.Members()[0].SetDown(false)
		if pick(Good); !g.Members()[0].IsUp() {
			t.Error("b is up")
		}
	})
}

// A request that began before its client was ejected says nothing of it.
func TestLateVerdict(t *testing.T) {
	for _, verdict := range []Verdict{Good, Bad, Unknown} {
		g, clients := newGroup()
		g.Remove(func(f *fake) bool { return f != clients[0] })
		early, _ := g.Pick(nil)
		picks(t, g, EjectAfter, Bad)
		until := early.Member.ejectedUntil
		if early.Report(verdict); g.Members()[0].IsUp() || early.Member.ejectedUntil != until {
			t.Errorf("verdict %d: it is up %v", verdict, g.Members()[0].IsUp())
		}
	}
}

func BenchmarkPick(b *testing.B) {
	g, _ := newGroup()
	for b.Loop() {
		p, _ := g.Pick(nil)
		p.Report(Good)
	}
}
