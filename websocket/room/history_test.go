package room

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/websocket"
)

// A queue is a Backplane to one other hub: what that publishes arrives here later, in order.
type queue struct {
	to       *queue
	receiver backplane.Receiver
	data     chan []byte
	joined   atomic.Bool
}

// queues connects two hubs until the test ends.
func queues(t *testing.T) (a, b *queue) {
	a, b = &queue{data: make(chan []byte, 1<<16)}, &queue{data: make(chan []byte, 1<<16)}
	a.to, b.to = b, a
	var running sync.WaitGroup
	over := make(chan struct{}) // not the end of data: hubs may still answer each other
	for _, q := range []*queue{a, b} {
		running.Go(func() {
			for {
				select {
				case data := <-q.data:
					q.receiver.Received(every, data)
				case <-over:
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		close(over)
		running.Wait()
	})
	return a, b
}

func (q *queue) Subscribe(r backplane.Receiver) error { q.receiver = r; return nil }
func (q *queue) Join(string) error                    { q.joined.Store(true); return nil }
func (q *queue) Leave(string) error                   { q.joined.Store(false); return nil }
func (q *queue) Publish(_ string, data []byte) error {
	if q.to.joined.Load() {
		q.to.data <- append([]byte(nil), data...)
	}
	return nil
}

// A process is a server with a hub, as in a process of its own.
type process struct {
	t      *testing.T
	server *sluice.Server
	addr   string
	hub    *Hub
	missed atomic.Int32
}

func newProcess(t *testing.T, o Options) *process {
	p := &process{t: t, hub: newHub(t, o)}
	e := &websocket.Endpoint{Name: "rooms",
		OnOpen: func(c *websocket.Conn) error { return errors.Join(p.hub.Join(c, "a"), p.hub.Join(c, "b")) },
		OnMoved: func(c *websocket.Conn, rooms []string) error {
			for _, name := range rooms {
				err := p.hub.Join(c, name)
				if errors.Is(err, ErrMissed) {
					p.missed.Add(1)
				} else if err != nil {
					return err
				}
			}
			return nil
		},
	}
	p.server = &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }}
	if err := e.Register(p.server); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may begin after Shutdown: a short test needs no connection of this one
		if err := errors.Join(p.server.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return p
}

// connect opens a connection that is a member of both rooms.
func (p *process) connect() net.Conn {
	before := p.hub.Len("b")
	peer, err := net.Dial("tcp4", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { peer.Close() })
	_ = peer.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.WriteString(peer, hello); err != nil {
		p.t.Fatal(err)
	}
	for head := []byte(nil); !strings.HasSuffix(string(head), "\r\n\r\n"); {
		var b [1]byte
		if _, err := peer.Read(b[:]); err != nil {
			p.t.Fatal(err)
		}
		head = append(head, b[0])
	}
	for p.hub.Len("b") == before {
		time.Sleep(time.Millisecond)
	}
	return peer
}

// give hands over what can be, and returns how many connections have moved.
func (p *process) give(to *process) int {
	return p.server.Control().HandOver(-1, func(conn net.Conn, parcel sluice.Parcel) {
		if err := to.server.Control().AdoptConn(conn, parcel); err != nil {
			p.t.Error(err)
		}
	})
}

// readAll reads messages of the form "room source number", and fails unless each comes once
// and in the order of its source and room, until the one with the number last of each has
// come.
func readAll(peer net.Conn, sources, last int) error {
	in, next := bufio.NewReader(peer), map[string]int{}
	for done := 0; done < sources; {
		var head [2]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return fmt.Errorf("%w after %v", err, next)
		}
		payload := make([]byte, head[1])
		if _, err := io.ReadFull(in, payload); err != nil {
			return err
		}
		var name, source string
		var number int
		if _, err := fmt.Sscan(string(payload), &name, &source, &number); err != nil || head[0] != 0x81 {
			return fmt.Errorf("%x %q", head, payload)
		}
		if next[name+source]++; number != next[name+source] {
			return fmt.Errorf("room %s, source %s: %d comes, want %d", name, source, number, next[name+source])
		}
		if number == last {
			done++
		}
	}
	return nil
}

// TestHistory: members that move between two processes under a load of broadcasts of both
// miss no message and get none twice.
func TestHistory(t *testing.T) {
	members, count := 20, 3000
	if testing.Short() {
		members, count = 10, 1000
	}
	a, b := queues(t)
	// A hub keeps messages without members, too.
	from := newProcess(t, Options{Backplane: a, History: 100_000})
	to := newProcess(t, Options{Backplane: b, History: 100_000})
	from.hub.history.transit, to.hub.history.transit = time.Minute, time.Minute
	var reading, writing sync.WaitGroup
	var moves atomic.Int64
	for range members {
		peer := from.connect()
		reading.Go(func() {
			if err := readAll(peer, 4, count); err != nil {
				t.Error(err)
				peer.Close()
			}
		})
	}
	for _, name := range []string{"a", "b"} {
		for i, p := range []*process{from, to} {
			writing.Go(func() {
				for number := range count {
					for len(a.data)+len(b.data) > 100 { // else messages are on their way for too long
						time.Sleep(time.Millisecond)
					}
					// As many moves as members, spread over the messages. The readers fail after a minute.
					for moves.Load()*int64(count) < int64(members*number) && !t.Failed() {
						time.Sleep(time.Millisecond)
					}
					p.hub.Broadcast(name, text(fmt.Sprint(name, " ", i, " ", number+1)))
					if number%10 == 0 {
						time.Sleep(100 * time.Microsecond) // so that moves have a chance
					}
				}
			})
		}
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	for isWritten := false; !isWritten; {
		select {
		case <-written:
			isWritten = true
		default:
		}
		moves.Add(int64(from.give(to)))
		moves.Add(int64(to.give(from)))
	}
	reading.Wait()
	t.Log(moves.Load(), "moves")
	if n := from.missed.Load() + to.missed.Load(); n > 0 {
		t.Errorf("%d moves, in %d of them messages were missed", moves.Load(), n)
	}
}

// TestHistoryMissed: a member that has missed a message which is not kept any more learns it.
func TestHistoryMissed(t *testing.T) {
	a, b := queues(t)
	from, to := newProcess(t, Options{Backplane: a, History: 10}), newProcess(t, Options{Backplane: b, History: 2})
	peer := from.connect()
	from.hub.Broadcast("a", text("1"))
	expect(t, peer, "1")
	var moved []func()
	for len(moved) == 0 {
		from.server.Control().HandOver(-1, func(conn net.Conn, parcel sluice.Parcel) {
			moved = append(moved, func() { _ = to.server.Control().AdoptConn(conn, parcel) })
		})
	}
	for _, s := range []string{"2", "3", "4"} {
		from.hub.Broadcast("b", text(s))
	}
	to.hub.history.await(position{{mark{from.hub.history.sources[0].run, 4}, 0}})
	moved[0]()
	expect(t, peer, "3")
	expect(t, peer, "4")
	for to.hub.Len("b") == 0 {
		time.Sleep(time.Millisecond)
	}
	if n := to.missed.Load(); n != 2 {
		t.Errorf("%d of 2 rooms tell that messages are missed", n)
	}
}

// TestHistoryBounds: a history keeps no more messages, bytes and sources than it may.
func TestHistoryBounds(t *testing.T) {
	h := newHistory(10, 2000)
	for i := range 1000 {
		if !h.add(kept{"r", mark{uint32(i%100 + 1), uint64(i/100 + 1)}, text("x")}) {
			t.Errorf("message %d is not new", i)
		}
	}
	if len(h.ring) > 10 || h.bytes > 2000 || len(h.sources) != maxSources {
		t.Errorf("%d messages, %d bytes, %d sources", len(h.ring), h.bytes, len(h.sources))
	}
	long := newHistory(10, 2000)
	for i := range 100 {
		long.add(kept{strings.Repeat("r", 900), mark{1, uint64(i + 1)}, text("x")})
	}
	if n := long.last + 1 - long.first; n != 1 {
		t.Errorf("%d messages of a room with a long name", n)
	}
	if few := newHistory(1_000_000, 2000); few.limit != 2000/overhead {
		t.Errorf("%d places", few.limit)
	}
	large := websocket.Prepare(websocket.Binary, make([]byte, 2000))
	before := h.last
	if !h.add(kept{"r", mark{100, 100}, large}) || h.last != before || h.source(100).evicted != 100 {
		t.Error("a message that is larger than the bound is kept")
	}
	if h.add(kept{"r", mark{100, 100}, large}) {
		t.Error("a message is new twice")
	}
	var p position
	for _, s := range h.sources {
		p = append(p, reached{mark{s.run, s.number - 1}, 0})
	}
	if all, isWhole := h.since("r", p); len(all) == 0 || len(all) > 10 || isWhole {
		t.Errorf("%d messages, whole: %t", len(all), isWhole)
	}
}

// TestHistoryAwait: a join waits for messages that are on their way, not long and not twice,
// and not for those that were sent before the process began.
func TestHistoryAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(10, 1<<20)
		wait := func(number uint64, age time.Duration) time.Duration {
			began := time.Now()
			h.await(position{{mark{7, number}, age}})
			return time.Since(began)
		}
		time.Sleep(time.Millisecond)
		go func() {
			for number := range uint64(3) {
				time.Sleep(10 * time.Millisecond)
				h.add(kept{"r", mark{7, number + 1}, text("x")})
			}
		}()
		for _, step := range []struct {
			number    uint64
			age, want time.Duration
		}{
			{3, 2 * time.Millisecond, 0}, // it came to others before
			{3, 0, 30 * time.Millisecond},
			{4, 0, transit}, // it does not come
			{4, 0, 0},
			{5, transit, 0},
		} {
			if d := wait(step.number, step.age); d != step.want {
				t.Errorf("message %d of %v ago is awaited for %v, want %v", step.number, step.age, d, step.want)
			}
		}
	})
}

// A position has room for maxSources processes. Another history may still know one that is
// missing in it, and sends nothing of it again; but what came later is sent. A history that asks
// for what it does not have names as many.
func TestForgottenInPosition(t *testing.T) {
	for _, count := range []int{maxSources - 2, maxSources - 1, maxSources, maxSources + 10} {
		here, there := newHistory(1000, 1<<20), newHistory(1000, 1<<20)
		add := func(m mark, histories ...*history) {
			for _, h := range histories {
				h.add(kept{"a", m, text(fmt.Sprint(m))})
			}
		}
		for n := range uint64(2) {
			for i := range count {
				add(mark{uint32(i), n + 1}, here, there)
			}
		}
		add(mark{here.sources[0].run, 1}, here, there) // there forgets one more process
		position, release, ok := there.hold(nil)
		if !ok {
			t.Fatal("held")
		}
		release()
		p, _ := parsePosition(position)
		for _, isNew := range []bool{false, true} {
			want := 0
			if isNew {
				want = 1
				add(mark{9999, 1}, here)
			}
			if all, isWhole := here.since("a", p); len(all) != want || !isWhole {
				t.Errorf("%d processes: %d messages are sent, want %d; whole %v", count, len(all), want, isWhole)
			}
			have := recalled{&Hub{history: there}}.Cursors()
			if all, _ := (recalled{&Hub{history: here}}).Page(have, 1<<20); len(all) != want {
				t.Errorf("%d processes: %d messages are recalled, want %d", count, len(all), want)
			}
		}
	}
}
