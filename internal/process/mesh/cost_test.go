package mesh

import "testing"

type ignore struct{}

func (ignore) Received(string, []byte) {}
func (ignore) Gap(string)              {}

// quiet returns a plane whose room "room" is joined, with peers that get no messages.
func quiet(t testing.TB, peers int) (*plane, []*peer) {
	m := &Mesh{}
	var all []*peer
	for range peers {
		all = append(all, newPeer(m, nil))
	}
	m.peers.Store(&all)
	m.phase, m.meeting = phaseMet, make(chan struct{})
	close(m.meeting)
	p := m.Plane("plane").(*plane)
	if err := p.Subscribe(ignore{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Join("room"); err != nil {
		t.Fatal(err)
	}
	return p, all
}

func TestMessagesDoNotAllocate(t *testing.T) {
	p, peers := quiet(t, 3)
	data := make([]byte, 256)
	if n := testing.AllocsPerRun(1000, func() {
		_ = p.Publish("room", data)
		for _, to := range peers {
			to.take()
		}
	}); n != 0 {
		t.Errorf("Publish: %v allocations", n)
	}
	peers[0].isKnown = true
	in := appendFrame(nil, frameMessage, "plane", "room", data)
	if n := testing.AllocsPerRun(1000, func() { _, _, _, _ = peers[0].frames(in) }); n != 0 {
		t.Errorf("receiving: %v allocations", n)
	}
}

func BenchmarkPublish(b *testing.B) {
	p, peers := quiet(b, 3)
	data := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Publish("room", data)
		for _, to := range peers {
			to.take()
		}
	}
}

func BenchmarkReceive(b *testing.B) {
	for name, room := range map[string]string{"joined": "room", "other": "other"} {
		b.Run(name, func(b *testing.B) {
			_, peers := quiet(b, 1)
			peers[0].isKnown = true
			in := appendFrame(nil, frameMessage, "plane", room, make([]byte, 256))
			b.ReportAllocs()
			for b.Loop() {
				_, _, _, _ = peers[0].frames(in)
			}
		})
	}
}
