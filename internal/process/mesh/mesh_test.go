package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/backplane"
)

// A master introduces processes to each other.
type master struct {
	interests func() Interests // of the processes

	mu    sync.Mutex
	takes []func(Conn)
	ends  []net.Conn // of the streams; those that a process has got alternate with the others'
}

func (m *master) meet(take func(Conn)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.takes {
		one, two := net.Pipe()
		m.ends = append(m.ends, one, two)
		other(one)
		take(two)
	}
	m.takes = append(m.takes, take)
	return nil
}

// start starts a process with a plane "p".
func (m *master) start(t *testing.T, slot, generation int) *process {
	t.Helper()
	p := &process{}
	p.plane = p.mesh.Plane("p")
	if err := p.plane.Subscribe(p); err != nil {
		t.Fatal(err)
	}
	err := p.mesh.Start(Options{Slot: slot, Generation: generation, Meet: m.meet, Interests: m.interests, Failed: func(err error) { p.note("failed: " + err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A process notes what it receives.
type process struct {
	mesh  Mesh
	plane backplane.Backplane
	hold  chan struct{} // if set, Received waits for it

	mu  sync.Mutex
	got []string
}

func (p *process) Received(room string, data []byte) {
	if p.hold != nil {
		<-p.hold
	}
	if len(data) > 100 {
		data = fmt.Appendf(nil, "%d bytes", len(data))
	}
	p.note(room + ":" + string(data))
}

func (p *process) Gap(room string) { p.note("gap " + room) }

func (p *process) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, s)
}

// expect checks what was received since the last call.
func (p *process) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.got, want) {
		t.Errorf("got %q, want %q", p.got, want)
	}
	p.got = nil
}

// inBubble runs a test with a clock of its own. The processes leave at its end.
func inBubble(t *testing.T, test func(t *testing.T, m *master)) {
	synctest.Test(t, func(t *testing.T) {
		var m master
		test(t, &m)
		for _, end := range m.ends {
			end.Close()
		}
	})
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// settle lets everything that was published arrive.
func settle() { time.Sleep(2 * writeInterval); synctest.Wait() }

func TestRooms(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b, c := m.start(t, 0, 1), m.start(t, 1, 1), m.start(t, 2, 1)
		do(t, a.plane.Join("x"), b.plane.Join("x"), c.plane.Join("y"))
		do(t, a.plane.Publish("x", []byte("1")), a.plane.Publish("y", nil), a.plane.Publish("z", []byte("none")))
		settle()
		a.expect(t)
		b.expect(t, "x:1")
		c.expect(t, "y:")
		do(t, b.plane.Leave("x"), a.plane.Publish("x", []byte("2")))
		settle()
		b.expect(t)
		do(t, b.plane.Join("x"), c.plane.Publish("x", []byte("3")))
		settle()
		a.expect(t, "x:3")
		b.expect(t, "x:3")
	})
}

// Planes of other names do not meet, and one name has one receiver.
func TestPlanes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b := m.start(t, 0, 1), m.start(t, 1, 1)
		if err := a.mesh.Plane("p").Subscribe(a); !errors.Is(err, ErrSubscribed) {
			t.Error(err)
		}
		for _, name := range []string{"", "a\x00b", strings.Repeat("n", maxPlane+1)} {
			if err := a.mesh.Plane(name).Subscribe(a); !errors.Is(err, ErrName) {
				t.Errorf("%q: %v", name, err)
			}
		}
		q := a.mesh.Plane("q")
		do(t, q.Subscribe(a), q.Join("x"), b.plane.Publish("x", []byte("p")))
		settle()
		a.expect(t)
		other := b.mesh.Plane("q")
		do(t, other.Subscribe(b), other.Publish("x", []byte("q")))
		settle()
		a.expect(t, "x:q")
	})
}

// Without Start a plane has no peers.
func TestAlone(t *testing.T) {
	var m Mesh
	p := m.Plane("p")
	do(t, p.Subscribe(&process{}), p.Join("x"), p.Publish("x", nil), p.Leave("x"), p.Leave("x"))
	m.Close(t.Context())
	if err := m.Plane("q").Subscribe(&process{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestSizes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b := m.start(t, 0, 1), m.start(t, 1, 1)
		room := strings.Repeat("r", backplane.MaxRoom)
		data := make([]byte, backplane.MaxData)
		do(t, b.plane.Join(room), b.plane.Join("x"), a.plane.Publish(room, data), a.plane.Publish("x", []byte("after")))
		settle()
		b.expect(t, room+fmt.Sprintf(":%d bytes", len(data)), "x:after")
		for _, err := range []error{a.plane.Join(room + "r"), a.plane.Publish(room+"r", nil), a.plane.Publish("x", append(data, 0))} {
			if !errors.Is(err, backplane.ErrTooLarge) {
				t.Error(err)
			}
		}
	})
}

// A process that takes nothing has a bounded queue. Once it takes again, it gets what was
// queued, then the gaps, then what came later.
func TestGap(t *testing.T) {
	for _, rooms := range []int{1, mostLost, mostLost + 1} {
		t.Run(fmt.Sprint(rooms), func(t *testing.T) { testGap(t, rooms) })
	}
}

func testGap(t *testing.T, rooms int) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b := m.start(t, 0, 1), m.start(t, 1, 1)
		b.hold = make(chan struct{})
		do(t, b.plane.Join("x"))
		for i := range rooms {
			do(t, b.plane.Join(fmt.Sprint(i)))
		}
		do(t, a.plane.Publish("x", []byte("held")))
		settle()
		for range 50 { // until the streams and the queue are full
			do(t, a.plane.Publish("x", make([]byte, 256<<10)))
			settle()
		}
		for i := range rooms {
			do(t, a.plane.Publish(fmt.Sprint(i), []byte("dropped")))
		}
		to := a.mesh.others()[0]
		to.mu.Lock()
		if n := cap(to.queue) + cap(to.spare); n > 2*(maxQueue+maxFrame) {
			t.Errorf("%d bytes in queues", n)
		}
		to.mu.Unlock()
		close(b.hold)
		settle()
		b.mu.Lock()
		if last := b.got[len(b.got)-1]; !strings.HasPrefix(last, "gap ") {
			t.Errorf("the last is %q before anything else is published", last)
		}
		b.mu.Unlock()
		do(t, a.plane.Publish("x", []byte("after")))
		settle()
		b.mu.Lock()
		got := b.got
		b.mu.Unlock()
		large := 0
		for large+1 < len(got) && got[large+1] == fmt.Sprintf("x:%d bytes", 256<<10) {
			large++
		}
		want := []string{"gap "}
		if rooms < mostLost {
			want = []string{"gap x"}
			for i := range rooms {
				want = append(want, fmt.Sprint("gap ", i))
			}
		}
		if want = append(want, "x:after"); large < 3 || large > 13 || !slices.Equal(got[1+large:], want) {
			t.Errorf("%d messages arrived, then %q, want %q", large, got[1+large:], want)
		}
		to.mu.Lock()
		if n := cap(to.queue) + cap(to.spare); n > 2*keptBuffer {
			t.Errorf("%d bytes in idle queues", n)
		}
		to.mu.Unlock()
	})
}

// A process that leaves tells of the messages that it has dropped.
func TestGapAtEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b := m.start(t, 0, 1), m.start(t, 1, 1)
		b.hold = make(chan struct{})
		do(t, b.plane.Join("x"))
		for range 8 {
			do(t, a.plane.Publish("x", make([]byte, backplane.MaxData)))
			settle()
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			a.mesh.Close(t.Context())
		}()
		synctest.Wait()
		close(b.hold)
		<-closed
		synctest.Wait()
		if last := b.got[len(b.got)-1]; last != "gap x" {
			t.Errorf("the last is %q", last)
		}
	})
}

// A process that has died makes a gap, also in the middle of a message; one that has left
// does not, and what it had published arrives.
func TestEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b := m.start(t, 0, 1), m.start(t, 1, 1)
		do(t, b.plane.Join("x"))
		c := m.start(t, 2, 1)
		do(t, a.plane.Publish("x", []byte("last")))
		a.mesh.Close(t.Context())
		b.expect(t, "x:last")
		c.expect(t)
		do(t, a.plane.Publish("x", []byte("nowhere")), c.plane.Publish("x", []byte("c")))
		settle()
		a.expect(t)
		b.expect(t, "x:c")
		if n, now := len(b.mesh.others()), len(a.mesh.others()); n != 1 || now != 0 {
			t.Errorf("%d and %d peers", n, now)
		}

		d := m.start(t, 3, 1)
		settle() // d's hello comes first
		half := appendFrame(nil, frameMessage, "p", "x", []byte("half a message"))
		to := m.ends[len(m.ends)-3] // d's end of the stream to b
		if _, err := to.Write(half[:len(half)-1]); err != nil {
			t.Fatal(err)
		}
		to.Close()
		b.expect(t, "gap ")
		do(t, c.plane.Publish("x", []byte("whole")))
		settle()
		b.expect(t, "x:whole")
		d.expect(t, "gap ")
	})
}

// The successor of a process that has crashed is told; one of a running process is not.
func TestSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		first, other := m.start(t, 0, 1), m.start(t, 1, 1)
		do(t, first.plane.Join("x"), other.plane.Join("x"))
		second := m.start(t, 0, 2)
		second.expect(t)
		do(t, second.plane.Join("x"))
		// Both have members now, and each gets what is published once.
		do(t, other.plane.Publish("x", []byte("1")))
		settle()
		do(t, first.plane.Publish("x", []byte("2")))
		settle()
		first.expect(t, "x:1")
		second.expect(t, "x:1", "x:2")
		other.expect(t, "x:2")
		m.start(t, 1, 9).expect(t)
		m.start(t, 7, 2).expect(t, "gap ")
	})
}

// A process that says nothing does not hold up others for long. When it says hello at last,
// it makes a gap.
func TestLate(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		ours, theirs := net.Pipe()
		m.takes = append(m.takes, func(c Conn) {
			go func() { _, _ = io.Copy(theirs, c.(net.Conn)) }()
			go func() { _, _ = io.Copy(c, theirs) }()
		})
		began := time.Now()
		a := m.start(t, 0, 1)
		if took := time.Since(began); took != helloPatience {
			t.Errorf("waited for %v", took)
		}
		a.expect(t)
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_, err := ours.Write(appendFrame(nil, frameHello, "", "", appendHello(nil, hello{slot: 3, interests: -1})))
		do(t, err)
		a.expect(t, "gap ")
		ours.Close()
	})
}

// What is no frame ends the stream, and a later version's frames are ignored.
func TestStrangers(t *testing.T) {
	greeting := appendFrame(nil, frameHello, "", "", appendHello(nil, hello{interests: -1}))
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"GET / HTTP/1.1\r\n\r\n", []string{"failed: " + errFrame.Error()}},
		{string(appendFrame(nil, frameMessage, "p", "x", nil)), []string{"failed: " + errHello.Error()}},
		{string(greeting) + string(greeting), []string{"failed: " + errHello.Error(), "gap "}},
		{string(appendFrame(nil, frameHello, "", "", nil)), []string{"failed: " + errHello.Error()}},
		{string(greeting) + string(appendFrame(nil, 77, "p", "x", nil)) + string(appendFrame(nil, frameMessage, "p", "x", []byte("y"))) +
			string(appendFrame(nil, frameMessage, "unknown", "x", nil)) + string(appendFrame(nil, frameGap, "p", "unknown", nil)), []string{"x:y", "gap "}},
	} {
		inBubble(t, func(t *testing.T, m *master) {
			a := m.start(t, 0, 1)
			do(t, a.plane.Join("x"))
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, ours) }()
			go func() {
				_, _ = io.WriteString(ours, c.in)
				ours.Close()
			}()
			m.takes[0](theirs)
			settle()
			a.expect(t, c.want...)
		})
	}
}

// Close does not wait longer than it may.
func TestCloseIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, m *master) {
		a, b := m.start(t, 0, 1), m.start(t, 1, 1)
		b.hold = make(chan struct{})
		do(t, b.plane.Join("x"), a.plane.Publish("x", nil))
		settle()
		do(t, a.plane.Publish("x", make([]byte, backplane.MaxData)))
		settle()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.mesh.Close(ctx)
		a.mesh.Close(ctx)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		close(b.hold)
		b.expect(t, "x:", "gap ")
	})
}
