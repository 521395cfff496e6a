package sse

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
)

// A plane connects Hubs of this process. What one publishes reaches the others in order, and
// at another time for each.
type plane struct {
	mesh     *mesh
	receiver backplane.Receiver
	in       chan [2]string // rooms and messages
	joined   map[string]bool
}

type mesh struct {
	mu     sync.Mutex // messages of one plane enter all queues in one order
	planes []*plane
}

func (m *mesh) plane(t *testing.T) *plane {
	p := &plane{mesh: m, in: make(chan [2]string, 10_000), joined: map[string]bool{}}
	m.mu.Lock()
	m.planes = append(m.planes, p)
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for message := range p.in {
			p.receiver.Received(message[0], []byte(message[1]))
		}
	}()
	t.Cleanup(func() {
		m.mu.Lock()
		clear(p.joined)
		m.mu.Unlock()
		close(p.in)
		<-done
	})
	return p
}

func (p *plane) Subscribe(r backplane.Receiver) error { p.receiver = r; return nil }
func (p *plane) Leave(string) error                   { return nil }

func (p *plane) Join(room string) error {
	p.mesh.mu.Lock()
	defer p.mesh.mu.Unlock()
	p.joined[room] = true
	return nil
}

func (p *plane) Publish(room string, data []byte) error {
	p.mesh.mu.Lock()
	defer p.mesh.mu.Unlock()
	for _, other := range p.mesh.planes {
		if other != p && other.joined[room] {
			other.in <- [2]string{room, string(data)}
		}
	}
	return nil
}

// TestSeveralProcesses: clients connect again and again, each time to another of three
// servers that all publish, and get every event once, those of each server in order.
func TestSeveralProcesses(t *testing.T) {
	const servers, each = 3, 400
	m := &mesh{}
	var all []*fixture
	for range servers {
		all = append(all, start(t, sluice.EngineAuto, Options{Name: "x", History: 2 * servers * each, Backplane: m.plane(t)}))
	}
	clients := make([]*client, 12)
	for i := range clients {
		clients[i] = all[i%servers].open("a", "")
	}
	eventually(t, "all are there", func() bool { return all[0].hub.Len("a")+all[1].hub.Len("a")+all[2].hub.Len("a") == len(clients) })
	var running sync.WaitGroup
	for n, f := range all {
		running.Go(func() {
			for i := range each {
				f.publish("a", fmt.Sprint(n, " ", i))
			}
		})
	}
	for i, c := range clients {
		running.Go(func() {
			got := [servers]int{}
			for count := 0; count < servers*each; count++ {
				e, err := c.Next()
				if err != nil {
					t.Errorf("client %d after %d events: %v", i, count, err)
					return
				}
				var n, number int
				if _, err := fmt.Sscan(string(e.Data), &n, &number); err != nil || number != got[n] {
					t.Errorf("client %d got %q, want number %d: %v (ID %s)", i, e.Data, got[n], err, e.ID)
					return
				}
				got[n]++
				if rand.N(40) == 0 {
					id := c.LastID()
					c.conn.Close()
					c = all[rand.N(servers)].open("a", id)
				}
			}
		})
	}
	running.Wait()
}

// TestMissed: a Hub that did not get all events of another one knows it.
func TestMissed(t *testing.T) {
	var gaps atomic.Int32
	m := &mesh{}
	f := start(t, sluice.EngineAuto, Options{OnGap: func() { gaps.Add(1) }, Backplane: m.plane(t),
		Snapshot: func(*sluice.RequestCtx, []string) ([]Event, error) { return []Event{{Data: []byte("all")}}, nil }})
	receive := func(number uint64, data string) {
		m.planes[0].receiver.Received("", appendMessage(nil, message{topic: "a", mark: mark{7, number}, event: Event{Data: []byte(data)}}))
	}
	receive(5, "five")
	c := f.open("a", "")
	c.want("all")
	receive(6, "six")
	receive(6, "six again")
	c.want("six")
	id := c.LastID()
	receive(9, "nine")
	c.want("nine")
	f.open("a", id).want("all")
	f.open("a", c.LastID()) // nothing is missing after it
	for _, damaged := range []string{"", "\x01", "\x02\x00\x00\x00\x07\x01\x01a\x00", "\x01\x00\x00\x00\x07\x00\x01a\x00", "\x01\x00\x00\x00\x07\x0a\x05a", "\x01\x00\x00\x00\x07\x0a\x01a\x01\n"} {
		m.planes[0].receiver.Received("", []byte(damaged))
	}
	before := gaps.Load()
	if m.planes[0].receiver.Gap(""); gaps.Load() != before+1 {
		t.Error("OnGap was not called")
	}
	if s := f.hub.Stats(); s.Events != 3 {
		t.Errorf("stats %+v", s)
	}
}

// TestProcessesAreForgotten: the number of processes that a Hub knows is bounded.
func TestProcessesAreForgotten(t *testing.T) {
	h, err := New(Options{History: 500})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		m := message{topic: "a", mark: mark{uint32(i), 1}, event: Event{Data: []byte("x")}}
		h.receive(appendMessage(nil, m))
	}
	if n := len(h.log.sources); n != maxMarks || h.log.last != 1000 {
		t.Errorf("%d sources, %d events", n, h.log.last)
	}
	if p, ok := parsePosition(string(appendPosition(nil, h.log.position()))); !ok || len(p) != maxMarks || p[0].run != 999 {
		t.Errorf("position %v", p)
	}
}
