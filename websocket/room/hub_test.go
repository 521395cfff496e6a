package room

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/websocket"
)

const hello = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// serve starts a server and returns functions that open a connection: its peer and its Conn.
func serve(t *testing.T) (open func() (net.Conn, *websocket.Conn)) {
	conns := make(chan *websocket.Conn, 1)
	e := &websocket.Endpoint{OnOpen: func(c *websocket.Conn) error { conns <- c; return nil }}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		if err := errors.Join(s.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return func() (net.Conn, *websocket.Conn) {
		peer, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peer.Close() })
		_ = peer.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := peer.Write([]byte(hello)); err != nil {
			t.Fatal(err)
		}
		c := <-conns
		for head := []byte(nil); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
			var b [1]byte
			if _, err := peer.Read(b[:]); err != nil {
				t.Fatal(err)
			}
			head = append(head, b[0])
		}
		return peer, c
	}
}

// expect reads a short text.
func expect(t *testing.T, peer net.Conn, want string) {
	t.Helper()
	frame := append([]byte{0x81, byte(len(want))}, want...)
	got := make([]byte, len(frame))
	for at := 0; at < len(got); {
		n, err := peer.Read(got[at:])
		if err != nil {
			t.Fatalf("%v after %q, want %q", err, got[:at], want)
		}
		at += n
	}
	if !bytes.Equal(got, frame) {
		t.Fatalf("got %q, want %q", got, frame)
	}
}

func text(s string) *websocket.Prepared { return websocket.Prepare(websocket.Text, []byte(s)) }

// A plane is a Backplane that connects hubs of one process, and checks that calls alternate.
type plane struct {
	t    *testing.T
	fail error // of Join and Leave

	mu        *sync.Mutex
	all       *[]*plane
	receiver  backplane.Receiver
	joined    map[string]bool
	published int
}

func planes(t *testing.T, n int) []*plane {
	var all []*plane
	mu := new(sync.Mutex)
	for range n {
		all = append(all, &plane{t: t, mu: mu, all: &all, joined: map[string]bool{}})
	}
	return all
}

func (p *plane) Subscribe(r backplane.Receiver) error { p.receiver = r; return nil }

func (p *plane) set(room string, isJoined bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.joined[room] == isJoined {
		p.t.Errorf("room %q: joined is already %v", room, isJoined)
	}
	if p.fail == nil {
		p.joined[room] = isJoined
	}
	return p.fail
}

func (p *plane) Join(room string) error  { return p.set(room, true) }
func (p *plane) Leave(room string) error { return p.set(room, false) }

func (p *plane) Publish(room string, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published++
	for _, other := range *p.all {
		if other != p && other.joined[room] {
			other.receiver.Received(room, data)
		}
	}
	return p.fail
}

func newHub(t *testing.T, o Options) *Hub {
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHeldByRooms: a connection that joins MaxRooms rooms, leaves them for others, and whose messages
// are kept, makes the Hub hold its history and the rooms of one time, however often it does so.
func TestHeldByRooms(t *testing.T) {
	const rooms, rounds, history, perRoom, size, ahead = 1000, 10, 64 << 10, 1 << 10, 1000, 16 << 10
	peer, c := serve(t)()
	sent := int64(0)
	var received atomic.Int64
	go func() {
		p := make([]byte, 32<<10)
		for err := error(nil); err == nil; {
			var n int
			n, err = peer.Read(p)
			received.Add(int64(n))
		}
	}()
	h := newHub(t, Options{MaxRooms: rooms, History: 100_000, HistoryBytes: history})
	before := nettest.HeapInUse()
	for round := range rounds {
		name := func(i int) string { return fmt.Sprintf("%d of round %d of a client with long names", i, round) }
		for i := range rooms {
			if err := h.Join(c, name(i)); err != nil {
				t.Fatal(err)
			}
			h.Broadcast(name(i), text(fmt.Sprintf("%0*d", size, i)))
			for end := time.Now().Add(10 * time.Second); sent-received.Load() > ahead; time.Sleep(100 * time.Microsecond) {
				if time.Now().After(end) {
					t.Fatal("the peer gets nothing more")
				}
			}
			sent += size
		}
		if err := h.Join(c, "one more"); err != ErrTooManyRooms {
			t.Fatalf("one more room: %v", err)
		}
		nettest.HoldsAtMost(t, before, 1, 2*history+rooms*perRoom+(128<<10), 5*time.Second, func() int64 { return int64(h.Rooms()) })
		for i := range rooms {
			h.Leave(c, name(i))
		}
	}
	nettest.HoldsAtMost(t, before, 1, 2*history+rooms*perRoom/4+(128<<10), 5*time.Second, func() int64 { return int64(h.Rooms()) })
	if h.Rooms() != 0 {
		t.Errorf("%d rooms are left", h.Rooms())
	}
}

func TestHub(t *testing.T) {
	open := serve(t)
	h := newHub(t, Options{MaxRooms: 2})
	a, connA := open()
	b, connB := open()
	for _, join := range []struct {
		c    *websocket.Conn
		room string
		want error
	}{{connA, "x", nil}, {connB, "x", nil}, {connB, "y", nil}, {connB, "y", nil}, {connA, "z", ErrTooManyRooms}} {
		if err := h.Join(join.c, join.room); err != join.want {
			t.Errorf("Join of %s: %v", join.room, err)
		}
	}
	if h.Len("x") != 2 || h.Len("y") != 1 || h.Len("z") != 0 || h.Rooms() != 2 {
		t.Error("the numbers are wrong")
	}
	if n := h.Broadcast("x", text("all")); n != 2 {
		t.Errorf("sent to %d", n)
	}
	if n := h.Broadcast("x", text("but B"), Except(connB)); n != 1 {
		t.Errorf("sent to %d", n)
	}
	if n := h.Broadcast("y", text("y")) + h.Broadcast("nowhere", text("")); n != 1 {
		t.Errorf("sent to %d", n)
	}
	expect(t, a, "all")
	expect(t, a, "but B")
	expect(t, b, "all")
	expect(t, b, "y")
	h.Range("x", func(c *websocket.Conn) bool { return h.Leave(c, "x") })
	if h.Rooms() != 1 || h.Leave(connA, "x") {
		t.Error("the room is still there")
	}
	ended := connB.Context()
	b.Close()
	<-ended.Done()
	for end := time.Now().Add(20 * time.Second); h.Rooms() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a connection that has ended is a member")
		}
	}
	if err := h.Join(connB, "x"); err != websocket.ErrClosed || h.Rooms() != 0 {
		t.Errorf("Join after the end: %v", err)
	}
}

// TestHubs: hubs on a Backplane are one.
func TestHubs(t *testing.T) {
	open := serve(t)
	all := planes(t, 2)
	var failed []string
	var gaps []string
	one := newHub(t, Options{Backplane: all[0]})
	two := newHub(t, Options{
		Backplane: all[1], OnGap: func(room string) { gaps = append(gaps, room) },
		OnError: func(room string, err error) { failed = append(failed, room+": "+err.Error()) },
	})
	a, connA := open()
	b, connB := open()
	if err := errors.Join(one.Join(connA, "r"), two.Join(connB, "r"), two.Join(connA, "r")); err != nil {
		t.Fatal(err)
	}
	one.Broadcast("r", text("1"), Except(connA))
	expect(t, b, "1")
	expect(t, a, "1") // as a member of the other hub
	two.Leave(connA, "r")
	two.Broadcast("r", text("2"))
	expect(t, a, "2")
	expect(t, b, "2")
	one.Leave(connA, "r")
	two.Broadcast("r", text("3"))
	expect(t, b, "3")
	all[1].receiver.Gap("r")
	all[1].receiver.Received("r", []byte("junk"))
	all[1].fail = errors.New("broken")
	if err := two.Join(connA, "new"); err != all[1].fail || two.Rooms() != 1 {
		t.Errorf("Join: %v", err)
	}
	two.Leave(connB, "r")
	want := "[r] [r: sluice: room: a message of the backplane is malformed r: broken]"
	if got := fmt.Sprint(gaps, failed); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestHubTooLarge: a message that the Backplane refuses is not sent to members either.
func TestHubTooLarge(t *testing.T) {
	open := serve(t)
	all := planes(t, 2)
	var failed []error
	h := newHub(t, Options{Backplane: all[0], OnError: func(_ string, err error) { failed = append(failed, err) }})
	a, connA := open()
	if err := h.Join(connA, "r"); err != nil {
		t.Fatal(err)
	}
	const head = 3 // version, kind, length of the key
	largest := websocket.Prepare(websocket.Binary, make([]byte, backplane.MaxData-head))
	larger := websocket.Prepare(websocket.Binary, make([]byte, backplane.MaxData-head+1))
	if n := h.Broadcast("r", larger); n != 0 {
		t.Errorf("sent to %d", n)
	}
	h.Broadcast(strings.Repeat("x", backplane.MaxRoom+1), text("x"))
	if all[0].published != 0 || !slices.Equal(failed, []error{backplane.ErrTooLarge, backplane.ErrTooLarge}) {
		t.Errorf("published %d, errors %v", all[0].published, failed)
	}
	h.Broadcast(strings.Repeat("x", backplane.MaxRoom), largest)
	h.Broadcast("r", text("ok"))
	expect(t, a, "ok")
	if all[0].published != 2 || len(failed) != 2 {
		t.Errorf("published %d, errors %v", all[0].published, failed)
	}
}

// TestHubReceived: what the Backplane passes is its own again after Received.
func TestHubReceived(t *testing.T) {
	open := serve(t)
	all := planes(t, 1)
	h := newHub(t, Options{Backplane: all[0]})
	a, connA := open()
	if err := h.Join(connA, "r"); err != nil {
		t.Fatal(err)
	}
	data := encode(text("kept"), mark{}, "")
	all[0].receiver.Received("r", data)
	clear(data)
	expect(t, a, "kept")
}

// TestHubRace: members come and go at once; Join and Leave of the Backplane alternate.
func TestHubRace(t *testing.T) {
	open := serve(t)
	all := planes(t, 1)
	h := newHub(t, Options{Backplane: all[0]})
	var wait sync.WaitGroup
	for range 8 {
		_, c := open()
		wait.Go(func() {
			for i := range 2000 {
				name := string('a' + rune(rand.IntN(2)))
				if i%2 == 0 {
					_ = h.Join(c, name)
				} else {
					h.Leave(c, name)
				}
			}
			h.Leave(c, "a")
			h.Leave(c, "b")
		})
	}
	wait.Wait()
	if h.Rooms() != 0 || all[0].joined["a"] || all[0].joined["b"] {
		t.Error("a room remains")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(text("hello"), mark{}, ""))
	f.Add(encode(websocket.PrepareKeyed("key", websocket.Binary, nil), mark{1, 2}, "room"))
	f.Add([]byte{1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		decode := decodeMarked
		if in[0] == versionPlain {
			decode = func(in []byte) (kept, error) {
				p, err := decodePlain(in)
				return kept{prepared: p}, err
			}
		}
		k, err := decode(in[1:])
		if err != nil {
			return
		}
		again, err := decode(encode(k.prepared, k.mark, k.room)[1:])
		if err != nil || again.room != k.room || again.mark != k.mark || again.prepared.Key() != k.prepared.Key() ||
			again.prepared.Kind() != k.prepared.Kind() || !bytes.Equal(again.prepared.Data(), k.prepared.Data()) {
			t.Errorf("%x is not what was encoded: %v", in, err)
		}
	})
}

func FuzzPosition(f *testing.F) {
	f.Add(appendPosition(position{{mark{1, 2}, 0}, {mark{1 << 31, 1 << 63}, transit}}))
	f.Add("\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parsePosition(text)
		if !ok {
			return
		}
		if again, ok := parsePosition(appendPosition(p)); !ok || !slices.Equal(again, p) {
			t.Errorf("%x: %v became %v", text, p, again)
		}
	})
}
