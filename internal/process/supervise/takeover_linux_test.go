package supervise

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// notes is a Holder that notes what is dropped.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) note(text string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, text)
	return nil
}

func (n *notes) Put(string, []byte, ...*os.File) error                 { return nil }
func (n *notes) Drop(name string) error                                { return n.note("drop " + name) }
func (n *notes) Start(string, Process, ...*os.File) (pid int, e error) { return 1, nil }
func (n *notes) Wait(string) string                                    { return "" }
func (n *notes) Signal(id string, sig syscall.Signal) error            { return n.note(sig.String() + " " + id) }
func (n *notes) Forget(id string) error                                { return n.note("forget " + id) }
func (n *notes) Probe(string) error                                    { return nil }
func (n *notes) Replace(string) error                                  { return nil }
func (n *notes) Dismiss() error                                        { return nil }

// leave returns what a Master leaves that has got so far as s.
func (s *script) leave() *Held {
	s.t.Helper()
	text, err := json.Marshal(s.fleet.save())
	if err != nil {
		s.t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		s.t.Fatal(err)
	}
	return &Held{Entries: map[string]Entry{EntryFleet: {Data: text}, EntryLifeline: {Files: []*os.File{null}}}, Children: map[string]int{}}
}

// A Master that takes over drops what the one before had no time to drop, and ends a fleet whose
// end that one had no time to tell.
func TestTakeOverAtTheEnd(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets})
	s.start()
	s.feed(event{kind: evStop})
	s.exit(0, 1)
	if s.fleet.mode != modeFinished {
		t.Fatalf("mode %d", s.fleet.mode)
	}
	held := s.leave()
	held.Children["0.1"] = 12
	held.Entries[BinaryPrefix+"lost"] = Entry{}
	if !held.HasClosed() {
		t.Error("the sockets are open")
	}
	h := &notes{}
	m, err := NewFrom(Config{Workers: 1, Holder: h, NoSignals: true}, held)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := m.Run(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	want := []string{"drop binary/lost", "drop met/0.1", "forget 0.1", "killed 0.1"}
	for {
		h.mu.Lock()
		got := slices.Clone(h.all)
		h.mu.Unlock()
		slices.Sort(got)
		if slices.Equal(got, want) {
			break
		}
		if len(got) > len(want) || ctx.Err() != nil {
			t.Fatalf("%q, want %q", got, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// Orders that come before Run follow the take-over. Otherwise a worker that such an order starts
// would be taken for one whose start was lost.
func TestOrderBeforeTakeOver(t *testing.T) {
	s := newScript(t, Config{Workers: 1, MaxWorkers: 2, Sockets: noSockets})
	s.start()
	m, err := NewFrom(Config{Workers: 1, MaxWorkers: 2, Holder: &notes{}, NoSignals: true}, s.leave())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Scale(2)
	var kinds []eventKind
	for _, e := range m.events.takeAll() {
		kinds = append(kinds, e.kind)
	}
	if !slices.Equal(kinds, []eventKind{evResume, evScale}) {
		t.Errorf("events %v", kinds)
	}
}

// If a Master dies while it closes its sockets, the next one closes the others.
func TestTakeOverOfClosedSockets(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets})
	s.start()
	pid := s.fleet.slots[0].serving.pid
	s.feed(event{kind: evStop})
	s.feed(event{kind: evResume, children: map[key]int{{0, 1}: pid}})
	if !slices.ContainsFunc(s.last, func(a action) bool { return a.kind == actCloseSockets }) {
		t.Errorf("%+v", s.last)
	}
}

// A Master takes over in the middle of a restart, in which several versions have the same binary.
func TestTakeOverOfRestart(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets})
	s.start()
	for _, v := range []*version{s.fleet.good, {}, {}} { // the second restart follows the first
		if v == s.fleet.good {
			v.binary = &executable{id: "first", fd: -1}
			continue
		}
		s.feed(event{kind: evRestart, version: v})
	}
	s.fleet.pending.binary = s.fleet.good.binary
	held := s.leave()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	held.Entries[BinaryPrefix+"first"] = Entry{Files: []*os.File{self}}
	m, err := NewFrom(Config{Workers: 1, Holder: &notes{}, NoSignals: true}, held)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f := m.fleet
	if f.good == f.target || f.pending == nil || f.good.binary == nil || f.good.binary != f.target.binary || f.good.binary != f.pending.binary {
		t.Errorf("good %+v, target %+v, pending %+v", f.good, f.target, f.pending)
	}
}
