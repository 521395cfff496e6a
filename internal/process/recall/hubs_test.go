package recall

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/backplane"
)

// A network connects the hubs of a test. It delivers at once.
type network struct {
	mu   sync.Mutex
	hubs []*hub
	lose func(to *hub, message []byte) bool // nil: nothing is lost
}

// A hub has a history of its own messages and of those that it has received. It is a Log and
// a Backplane.
type hub struct {
	*network
	recall  *Recall
	run     uint32
	mu      sync.Mutex
	rooms   []string
	texts   []string // "run.number", in the order of the history
	cursors []Cursor // its own first
	size    int      // of a message
	refuses bool     // Join fails
}

// connect makes a hub that has published count messages.
func (n *network) connect(run uint32, count, size int) *hub {
	h := &hub{network: n, run: run, size: size, cursors: []Cursor{{Run: run}}}
	for i := range count {
		h.Take(fmt.Appendf(nil, "%d.%d%s", run, i+1, strings.Repeat(" ", size)))
	}
	h.recall = New(Options{Log: h, Plane: h, Room: "r", Run: run, Most: 1 << 20})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hubs = append(n.hubs, h)
	return h
}

func (h *hub) Subscribe(backplane.Receiver) error { return nil }
func (h *hub) Leave(string) error                 { return nil }

func (h *hub) Join(room string) error {
	if h.refuses {
		return errors.New("no broker")
	}
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.rooms = append(h.rooms, room)
	return nil
}

func (h *hub) Publish(room string, data []byte) error {
	h.network.mu.Lock()
	var to []*hub
	for _, o := range h.hubs {
		for _, r := range o.rooms {
			if o != h && r == room && (h.lose == nil || !h.lose(o, data)) {
				to = append(to, o)
			}
		}
	}
	h.network.mu.Unlock()
	for _, o := range to {
		o.recall.Received(bytes.Clone(data), func() bool { return true })
	}
	return nil
}

func (h *hub) Cursors() []Cursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Cursor(nil), h.cursors...)
}

func (h *hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.texts)
}

// cursor returns the place of a run's cursor.
func (h *hub) cursor(run uint32) *Cursor {
	for i := range h.cursors {
		if h.cursors[i].Run == run {
			return &h.cursors[i]
		}
	}
	h.cursors = append(h.cursors, Cursor{Run: run})
	return &h.cursors[len(h.cursors)-1]
}

func (h *hub) Take(message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var run uint32
	var number uint64
	text := strings.TrimRight(string(message), " ")
	fmt.Sscanf(text, "%d.%d", &run, &number)
	if c := h.cursor(run); number > c.Number {
		c.Number = number
		h.texts = append(h.texts, text)
	}
}

func (h *hub) Page(have []Cursor, size int) (messages [][]byte, isLast bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := &hub{cursors: append([]Cursor(nil), have...)}
	for _, text := range h.texts {
		var run uint32
		var number uint64
		fmt.Sscanf(text, "%d.%d", &run, &number)
		if number <= known.cursor(run).Number {
			continue
		}
		if size -= h.size; size < 0 && len(messages) > 0 {
			return messages, false
		}
		messages = append(messages, fmt.Appendf(nil, "%s%s", text, strings.Repeat(" ", h.size)))
	}
	return messages, true
}

func (h *hub) Reach(reached []Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range reached {
		if c := h.cursor(r.Run); r.Number > c.Number {
			*c = r
		}
	}
}

// has checks the history.
func (h *hub) has(t *testing.T, want string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.texts, " "); got != want {
		t.Errorf("process %d has %q, want %q", h.run, got, want)
	}
}

// begin begins the recall of a hub, and waits for its end.
func (h *hub) begin(t *testing.T) {
	t.Helper()
	if err := h.recall.Begin(); err != nil {
		t.Fatal(err)
	}
	h.recall.Await(t.Context())
}

// A hub that begins gets the histories of all others, however many pages they need, and what
// they publish meanwhile once.
func TestBegin(t *testing.T) {
	for name, size := range map[string]int{"one page": 1, "a page for each two": pageSize / 2, "a page for each": 2 * pageSize} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{}
				a, b, late := n.connect(1, 3, size), n.connect(2, 2, size), n.connect(3, 0, size)
				a.begin(t)
				a.has(t, "1.1 1.2 1.3") // b has not joined
				b.begin(t)
				b.has(t, "2.1 2.2 1.1 1.2 1.3")
				if err := late.recall.Begin(); err != nil {
					t.Fatal(err)
				}
				if err := a.Publish("r", []byte("1.4")); err != nil {
					t.Fatal(err)
				}
				a.Take([]byte("1.4"))
				late.recall.Await(t.Context())
				late.has(t, "2.1 2.2 1.1 1.2 1.3 1.4")
				if late.recall.held != nil || late.recall.bytes != 0 {
					t.Error("messages are held after the recall")
				}
			})
		})
	}
}

// After a gap, a hub recalls what it has missed. A gap among the answers changes nothing.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a, b := n.connect(1, 1, 1), n.connect(2, 0, 1)
		if !b.recall.Gap("r") {
			t.Error("a gap before Begin does not concern the hub")
		}
		a.begin(t)
		b.begin(t)
		a.Take([]byte("1.2"))
		if b.recall.Gap(roomOf("r", 2)) {
			t.Error("a gap among the answers concerns the hub")
		}
		b.has(t, "1.1")
		if !b.recall.Gap("r") {
			t.Error("a gap does not concern the hub")
		}
		b.recall.Await(t.Context())
		b.has(t, "1.1 1.2")
		a.Take([]byte("1.3"))
		if !b.recall.Received([]byte("1.4"), func() bool { return false }) {
			t.Error("a message that follows a gap is carried out")
		}
		b.recall.Await(t.Context())
		b.has(t, "1.1 1.2 1.3 1.4")
		if b.recall.Received([]byte("1.5"), func() bool { return true }) {
			t.Error("a message that follows is not left to the hub")
		}
	})
}

// Pages that are lost are asked for again, and a peer that sends none is given up. Either ends.
func TestLostPages(t *testing.T) {
	for lost, want := range map[int]string{1: "1.1", pageTries: ""} {
		synctest.Test(t, func(t *testing.T) {
			n, left := &network{}, lost
			a, b := n.connect(1, 1, 1), n.connect(2, 0, 1)
			a.begin(t)
			n.lose = func(_ *hub, message []byte) bool {
				isLost := message[0] == byte(kindPage) && left > 0
				if isLost {
					left--
				}
				return isLost
			}
			start := time.Now()
			b.begin(t)
			b.has(t, want)
			if took := time.Since(start); took > patience {
				t.Errorf("%d lost pages: it took %v", lost, took)
			}
		})
	}
}

// A peer whose pages bring nothing new is not asked for ever.
func TestPagesWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a, b := n.connect(1, 3, 2*pageSize), n.connect(2, 0, 1)
		a.begin(t)
		b.recall.Log = deaf{b}
		asked := 0
		n.lose = func(_ *hub, message []byte) bool {
			if message[0] == byte(kindWant) {
				asked++
			}
			return false
		}
		b.begin(t)
		if b.has(t, ""); asked != 1 {
			t.Errorf("it asked %d times", asked)
		}
	})
}

// A deaf Log takes nothing.
type deaf struct{ Log }

func (deaf) Take([]byte) {}

// What others publish before the end of a recall is held up to Most bytes.
func TestHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		h := n.connect(1, 0, 1)
		h.recall.Most = 100
		for range 1000 {
			h.recall.Received(make([]byte, 10), func() bool { return true })
		}
		if held := len(h.recall.held); held != 10 {
			t.Errorf("%d messages are held", held)
		}
		h.begin(t)
		if held := len(h.recall.held); held != 0 {
			t.Errorf("%d messages are held after the recall", held)
		}
	})
}

// A Recall that is nil or idle does not let anybody wait; Begin passes an error of the broker on.
func TestNothingToAwait(t *testing.T) {
	(*Recall)(nil).Await(t.Context())
	h := (&network{}).connect(1, 0, 1)
	h.recall.Await(t.Context())
	if h.refuses = true; h.recall.Begin() == nil {
		t.Error("no error")
	}
}
