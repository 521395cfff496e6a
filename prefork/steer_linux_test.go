package prefork

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// A sibling is what a worker sees of another one.
type sibling struct {
	state   shared.State
	load    uint64
	silence time.Duration // since its last heartbeat
}

// boardWith returns the board of a worker of slot 0, and the pages of ready siblings in
// the slots from 1 on.
func boardWith(t *testing.T, siblings ...sibling) (b *board, pages []*shared.Page) {
	t.Helper()
	own, err := shared.New(shared.Options{Processes: 8, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	b = newBoard(own, WorkerInfo{Generation: 1})
	for i, s := range siblings {
		other, err := shared.Attach(own.File())
		if err != nil {
			t.Fatal(err)
		}
		page := newBoard(other, WorkerInfo{Slot: i + 1, Generation: 1}).page
		page.Set(shared.ProcessState, uint64(s.state))
		page.Set(shared.Accepted, 100+s.load)
		page.Set(shared.Done, 100)
		page.Set(shared.Heartbeat, uint64(own.Now()-int64(s.silence)))
		pages = append(pages, page)
	}
	return b, pages
}

// A worker passes a new connection on if it has clearly more than the ready sibling with
// the fewest.
func TestWhoGetsAConnection(t *testing.T) {
	idle := sibling{state: shared.Ready}
	for _, c := range []struct {
		name     string
		mine     uint64
		siblings []sibling
		want     int // the slot of the sibling; 0: none
	}{
		{"no sibling", 100, nil, 0},
		{"few", 2, []sibling{idle}, 0},
		{"one more than few", 3, []sibling{idle}, 1},
		{"the fewest", 100, []sibling{{state: shared.Ready, load: 5}, {state: shared.Ready, load: 4}, {state: shared.Ready, load: 4}}, 2},
		{"not enough for a sibling with many", 32 + 2 + 2, []sibling{{state: shared.Ready, load: 32}}, 0},
		{"enough for a sibling with many", 32 + 2 + 3, []sibling{{state: shared.Ready, load: 32}}, 1},
		{"the sibling has as many", 9, []sibling{{state: shared.Ready, load: 9}}, 0},
		{"the sibling drains", 100, []sibling{{state: shared.Draining}}, 0},
		{"the sibling is silent", 100, []sibling{{state: shared.Ready, silence: 2100 * time.Millisecond}}, 0},
		{"the sibling was heard of", 100, []sibling{{state: shared.Ready, silence: 1900 * time.Millisecond}}, 1},
	} {
		b, _ := boardWith(t, c.siblings...)
		b.page.Set(shared.Accepted, c.mine)
		got := 0
		if to := b.target(); to != nil {
			got = int(to.Get(shared.Slot))
		}
		if got != c.want {
			t.Errorf("%s: the worker of slot %d, want %d", c.name, got, c.want)
		}
	}
}

// A connection that is on its way counts at the worker to which it was announced, until it
// arrives there.
func TestAnnouncements(t *testing.T) {
	b, pages := boardWith(t, sibling{state: shared.Ready, load: 3}, sibling{state: shared.Draining, load: 3})
	for i, isReady := range []bool{true, false} {
		want := int64(3)
		if isReady {
			want++
		}
		if got := b.announce(pages[i]); got != isReady || loadOf(pages[i]) != want {
			t.Errorf("ready %v: announced %v, and its load is %d", isReady, got, loadOf(pages[i]))
		}
	}
	b.page.Set(shared.Inbound, 2)
	b.arrived(b.page.PID() + 1) // of a process that is gone
	if b.arrived(b.page.PID()); b.page.Get(shared.Inbound) != 1 || pages[0].Get(shared.Inbound) != 1 {
		t.Errorf("%d are on their way, and %d at the sibling", b.page.Get(shared.Inbound), pages[0].Get(shared.Inbound))
	}
}

// A connection with a state goes to the worker's own slot if every later worker there
// understands the state, and there is one.
func TestSuccessorTakesStates(t *testing.T) {
	moved := sluice.Parcel{State: []byte("state")}
	understands, doesNot := moved.Kind(), uint64(0)
	for _, c := range []struct {
		name              string
		slot              int
		generation, kinds uint64
		want              bool
	}{
		{"a successor", 0, 2, understands, true},
		{"one that does not understand", 0, 2, doesNot, false},
		{"a predecessor", 0, 0, understands, false},
		{"another slot", 1, 2, understands, false},
	} {
		b, pages := boardWith(t, sibling{state: shared.Ready})
		pages[0].Set(shared.Slot, uint64(c.slot))
		pages[0].Set(shared.Generation, c.generation)
		pages[0].Set(shared.StateKinds, c.kinds)
		w := &worker{link: &supervise.Worker{}, board: b}
		if got := w.successorTakes(moved); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if !w.successorTakes(sluice.Parcel{}) {
			t.Errorf("%s: a connection without a state stays", c.name)
		}
	}
}

// A connection that no inbox takes stays, and is announced nowhere.
func TestNoInboxTakesIt(t *testing.T) {
	b, pages := boardWith(t, sibling{state: shared.Ready})
	w, conns, _ := openConns(t, 1)
	w.link, w.board = &supervise.Worker{}, b
	if w.post(t.Context(), w.newBatch(), conns[0], sluice.Parcel{}) {
		t.Error("it was sent")
	}
	b.page.Set(shared.Accepted, 100)
	if w.divert(0) {
		t.Error("it was passed on")
	}
	if n := pages[0].Get(shared.Inbound); n != 0 {
		t.Errorf("%d are announced", n)
	}
}

// A connection that is passed on is announced first, and not any more if it cannot be sent.
func TestPassingOn(t *testing.T) {
	_, conns, _ := openConns(t, 1)
	fd, err := takeDescriptor(t, conns[0])
	if err != nil {
		t.Fatal(err)
	}
	defer closeSocket(fd)
	for _, err := range []error{nil, supervise.ErrInboxFull} {
		b, pages := boardWith(t, sibling{state: shared.Ready})
		l := newFakeLink()
		l.post = func(slot, sent int, parcel []byte, wait time.Duration) error {
			to, p, ok := parseParcel(parcel)
			if slot != 1 || sent != fd || to.announcedTo != pages[0].PID() || p.State != nil || len(p.Leftover) > 0 || !ok || wait != 0 || pages[0].Get(shared.Inbound) != 1 {
				t.Errorf("to slot %d: descriptor %d, %q, waits %v; %d are announced", slot, sent, parcel, wait, pages[0].Get(shared.Inbound))
			}
			return err
		}
		w := &worker{link: l, board: b}
		if w.divert(fd) {
			t.Error("it has few, and passes one on")
		}
		b.page.Set(shared.Accepted, 100)
		want := uint64(0)
		if err == nil {
			want = 1
		}
		if got := w.divert(fd); got != (err == nil) || pages[0].Get(shared.Inbound) != want || b.recent.diverted != want {
			t.Errorf("%v: %v, %d are announced, %d passed on", err, got, pages[0].Get(shared.Inbound), b.recent.diverted)
		}
		pages[0].Set(shared.Inbound, 0)
		for range 100 {
			b.page.Set(shared.Done, b.page.Get(shared.Done)+1)
			b.page.Set(shared.Accepted, b.page.Get(shared.Accepted)+1)
			b.recent.isQuick(b.segment.Now(), b.page.Get(shared.Done))
		}
		if w.divert(fd) {
			t.Error("connections are short, and it passes one on")
		}
	}
}

// A worker that hangs gets no connection of its siblings, although it looked ready. Nor does
// another one whose inbox it may read, until it is gone.
func TestHungWorkerGetsNone(t *testing.T) {
	b, pages := boardWith(t, sibling{state: shared.Ready}, sibling{state: shared.Ready})
	victim, sound := pages[0], pages[1]
	pid := victim.PID() // they are of one process
	markHung(b.segment, pid+1)
	if !b.announce(victim) {
		t.Fatal("another process hangs")
	}
	markHung(b.segment, pid)
	if b.announce(victim) {
		t.Error("a connection is sent to a worker that hangs")
	}
	sound.Set(shared.ProcessState, uint64(shared.Ready))
	if !b.announce(sound) {
		t.Error("a worker of another slot gets none")
	}
	sound.Set(shared.Slot, victim.Get(shared.Slot))
	if b.announce(sound) {
		t.Error("a connection is sent to an inbox that a worker which hangs may read")
	}
	victim.Set(shared.ProcessState, uint64(shared.Stopped))
	if !b.announce(sound) {
		t.Error("the successor gets none after that")
	}
}
