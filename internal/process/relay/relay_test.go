package relay

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
	"github.com/sluicehttp/sluice/internal/process/relay/relaytest"
)

// A broker connects Links of one process.
type broker struct {
	mu        sync.Mutex
	links     map[*link]map[string]bool // the rooms that they follow
	isStopped bool
}

func (b *broker) stop(isStopped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isStopped = isStopped
}

type link struct {
	broker *broker
	relay  *Relay
}

func (l *link) Follow(join, leave []string) error {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	for _, room := range join {
		l.broker.links[l][room] = true
	}
	for _, room := range leave {
		delete(l.broker.links[l], room)
	}
	return nil
}

func (l *link) Publish(batch []Message) error {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	for _, m := range batch {
		for other, rooms := range l.broker.links {
			if rooms[m.Room] && !l.broker.isStopped {
				other.relay.Deliver(m)
			}
		}
	}
	return nil
}

func (l *link) Close() {}

func open(t *testing.T, n int) (all []backplane.Backplane) {
	b := &broker{links: map[*link]map[string]bool{}}
	for range n {
		l := &link{broker: b}
		l.relay = New(l, Options{OnError: func(err error) { t.Error(err) }})
		t.Cleanup(l.relay.Close)
		b.links[l] = map[string]bool{}
		all = append(all, l.relay)
	}
	return all
}

func TestBackplane(t *testing.T) { backplanetest.Test(t, open) }

func TestHubs(t *testing.T) { relaytest.Hubs(t, open(t, 2)) }

func TestHistory(t *testing.T) { relaytest.History(t, open(t, 3)) }

// TestRestart: a broker that loses all messages until it is started again.
func TestRestart(t *testing.T) {
	var all []backplane.Backplane
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		all = open(t, n)
		return all
	}, func() { all[0].(*Relay).link.(*link).broker.stop(true) }, func() {
		all[0].(*Relay).link.(*link).broker.stop(false)
		for _, p := range all {
			p.(*Relay).Lost()
		}
	})
}

// A stuck Link waits in each call, after it has told of it.
type stuck struct {
	calls  chan string
	goOn   chan error
	closed chan struct{}
}

func newStuck() *stuck {
	return &stuck{calls: make(chan string), goOn: make(chan error), closed: make(chan struct{})}
}

func (s *stuck) Follow(join, leave []string) error {
	slices.Sort(join)
	slices.Sort(leave)
	s.calls <- fmt.Sprint("+", join, " -", leave)
	return <-s.goOn
}

func (s *stuck) Publish(batch []Message) error {
	s.calls <- fmt.Sprint(len(batch), " messages from ", string(batch[0].Data[Overhead:]))
	return <-s.goOn
}

func (s *stuck) Close() { close(s.closed) }

func (s *stuck) expect(t *testing.T, want string) {
	t.Helper()
	if got := <-s.calls; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A list is a Receiver that tells of each call twice, and waits each time.
type list struct {
	begun chan struct{}
	got   chan string
}

func (l *list) Received(room string, data []byte) { l.add(room + ":" + string(data)) }
func (l *list) Gap(room string)                   { l.add("gap of " + room) }

func (l *list) add(s string) {
	l.begun <- struct{}{}
	l.got <- s
}

// TestSlowBroker: while the Link waits for the network, messages are refused when the queue
// is full, and changes that undo each other cost nothing.
func TestSlowBroker(t *testing.T) {
	link, errs := newStuck(), make(chan error, 1)
	r := New(link, Options{Package: "test", MaxPending: 10 * (perMessage + 1 + Overhead + 1), OnError: func(err error) { errs <- err }})
	if err := errors.Join(r.Subscribe(&list{}), r.Join("a")); err != nil {
		t.Fatal(err)
	}
	link.expect(t, "+[a] -[]")
	for i := range 1000 {
		if err := errors.Join(r.Leave("a"), r.Join(fmt.Sprint(i)), r.Leave(fmt.Sprint(i)), r.Join("a")); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.changes) != 0 {
		t.Errorf("%d changes wait", len(r.changes))
	}
	if err := errors.Join(r.Leave("a"), r.Join("b")); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := r.Publish("r", fmt.Append(nil, i%10)); (err == backplane.ErrFull) != (i >= 10) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	link.goOn <- nil
	link.expect(t, "10 messages from 0")
	if err := r.Publish("r", nil); err != nil {
		t.Errorf("after the queue was taken: %v", err)
	}
	link.goOn <- errors.New("broken")
	if err := <-errs; err == nil || err.Error() != "sluice: test: broken" {
		t.Errorf("reported %v", err)
	}
	link.expect(t, "+[b] -[a]")
	link.goOn <- nil
	link.expect(t, "1 messages from ")
	closed := make(chan struct{})
	go func() { r.Close(); close(closed) }()
	<-link.closed
	link.goOn <- errors.New("of Close, which is not reported")
	<-closed
	if r.Publish("r", nil) == nil || r.Join("r") == nil || r.Subscribe(&list{}) == nil {
		t.Error("it works after Close")
	}
	r.Close()
}

// TestSlowReceiver: what does not fit becomes a gap in its place.
func TestSlowReceiver(t *testing.T) {
	l := &list{begun: make(chan struct{}), got: make(chan string)}
	r := New(newStuck(), Options{MaxPending: 2 * (perMessage + 1 + Overhead + 1)})
	if err := r.Subscribe(l); err != nil {
		t.Fatal(err)
	}
	deliver := func(room string, data byte) { r.Deliver(Message{room, append([]byte("8 bytes "), data)}) }
	take := func(want ...string) {
		t.Helper()
		for _, want := range want {
			if got := <-l.got; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			<-l.begun
		}
	}
	deliver("r", '0')
	<-l.begun
	r.Lost()
	for i := range byte(100) {
		deliver("r", '1'+i)
	}
	take("r:0", "gap of ", "r:1") // r:2 is with the Receiver now, and one has room
	deliver("s", 'a')
	deliver("s", 'b')
	deliver("s", 'c')
	deliver("r", 'd')
	if n := len(r.in.waits); n != 4 {
		t.Errorf("%d entries wait", n)
	}
	take("r:2", "gap of r", "s:a", "s:b")
	r.Deliver(Message{"r", []byte("short")})
	r.Deliver(Message{"r", append(r.id[:], "own"...)})
	if got := <-l.got; got != "gap of " {
		t.Errorf("got %q", got)
	}
	r.Close()
	if n := len(r.in.waits); n != 0 {
		t.Errorf("%d entries wait", n)
	}
}
