//go:build linux

package member

import (
	"errors"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
)

// wire collects who has sent.
type wire struct {
	client *client
	peers  []*peer
	sent   []*peer
	broken map[*peer]bool
}

// aSender is a peer's end of the wire.
type aSender struct {
	wire *wire
	peer *peer
}

func (s *aSender) TrySend([]byte) error {
	if s.wire.broken[s.peer] {
		return errors.New("broken")
	}
	s.wire.sent = append(s.wire.sent, s.peer)
	return nil
}

func newWire(n int) *wire {
	w := &wire{client: &client{began: time.Now(), drive: resting{}}, broken: make(map[*peer]bool)}
	for range n {
		p := &peer{}
		p.sender = &aSender{w, p}
		w.peers = append(w.peers, p)
	}
	return w
}

// take returns who has sent since the last call.
func (w *wire) take() (indices []int) {
	for _, p := range w.sent {
		for i := range w.peers {
			if w.peers[i] == p {
				indices = append(indices, i)
			}
		}
	}
	w.sent = nil
	return indices
}

func equal(a []int, b ...int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// start makes m the wire's driver and has it begin.
func (w *wire) start(m measurement) {
	w.client.drive = m
	m.begin()
}

func TestSweep(t *testing.T) {
	w := newWire(5)
	s := &sweep{tally: newTally(w.client, 0, control.Run{Duration: time.Hour}), peers: w.peers, window: 2}
	w.start(s)
	answer := func(i int, want ...int) {
		t.Helper()
		if s.answered(w.peers[i], time.Minute) {
			t.Errorf("%d goes on by itself", i)
		}
		if got := w.take(); !equal(got, want...) {
			t.Errorf("after the answer to %d, %v send, want %v", i, got, want)
		}
	}
	if got := w.take(); !equal(got, 0, 1) {
		t.Errorf("at first %v send", got)
	}
	answer(1, 2)
	answer(0, 3)
	answer(3, 4)
	answer(4)
	answer(2, 0, 1) // the next sweep
	if s.sweeps != 1 || s.isQuiet() || s.isOver(time.Minute) {
		t.Errorf("%d sweeps", s.sweeps)
	}
	s.to = time.Second // time is up, and the sweep goes on to its end
	answer(0, 2)
	answer(1, 3)
	answer(2, 4)
	answer(4)
	if s.isOver(time.Minute) {
		t.Error("it is over before the last answer")
	}
	answer(3)
	d := s.done()
	if !s.isOver(time.Minute) || !s.isQuiet() || d.Sweeps != 2 || d.Completed != 10 || d.Unanswered != 0 {
		t.Errorf("%+v", d)
	}
}

// TestSweepLoses: connections that end do not hold the others up.
func TestSweepLoses(t *testing.T) {
	w := newWire(4)
	w.broken[w.peers[1]] = true
	s := &sweep{tally: newTally(w.client, 0, control.Run{}), peers: w.peers, window: 2}
	w.start(s)
	if got := w.take(); !equal(got, 0, 2) {
		t.Errorf("at first %v send", got)
	}
	s.lost(w.peers[2])
	s.lost(w.peers[2]) // once is enough
	s.answered(w.peers[0], time.Second)
	s.answered(w.peers[3], time.Second)
	if d := s.done(); !s.isOver(time.Second) || d.Unanswered != 2 || d.Completed != 2 || d.Sweeps != 1 {
		t.Errorf("%+v", d)
	}
}

func TestSweepOfOne(t *testing.T) {
	w := newWire(1)
	s := &sweep{tally: newTally(w.client, 0, control.Run{Duration: time.Minute}), peers: w.peers, window: 9}
	w.start(s)
	if !s.answered(w.peers[0], time.Second) || s.answered(w.peers[0], time.Hour) || s.done().Sweeps != 2 {
		t.Errorf("%+v", s.done())
	}
}

func TestLoop(t *testing.T) {
	w := newWire(3)
	l := &loop{tally: newTally(w.client, 0, control.Run{Duration: time.Minute}), peers: w.peers[:2]}
	w.start(l)
	if got := w.take(); !equal(got, 0, 1) {
		t.Errorf("at first %v send", got)
	}
	if !l.answered(w.peers[0], time.Second) || l.answered(w.peers[0], time.Hour) {
		t.Error("a connection goes on when time is up, or not before")
	}
	l.lost(w.peers[1])
	if d := l.done(); d.Completed != 2 || d.Unanswered != 1 || !l.isQuiet() || !l.isOver(time.Hour) {
		t.Errorf("%+v", d)
	}
}

// TestSchedule: latency counts from when a request was due.
func TestSchedule(t *testing.T) {
	w := newWire(2)
	s := newSchedule(newTally(w.client, 0, control.Run{Duration: time.Hour}), w.peers, 10) // one in 100 ms
	w.client.drive = s
	s.release(250 * time.Millisecond) // due at 0, 100 and 200: two connections
	if got := w.take(); !equal(got, 0, 1) {
		t.Errorf("%v send", got)
	}
	if !s.answered(w.peers[1], 300*time.Millisecond) { // 200 ms late, and takes what is due
		t.Error("what is due waits although a connection is idle")
	}
	if s.answered(w.peers[1], 400*time.Millisecond) || s.answered(w.peers[0], 500*time.Millisecond) {
		t.Error("something is sent that is not due")
	}
	s.release(350 * time.Millisecond)
	if got := w.take(); !equal(got, 1) {
		t.Errorf("%v send: those that idle longest come first", got)
	}
	d := s.done()
	h, err := hdrhistogram.Decode(d.Latencies)
	if err != nil {
		t.Fatal(err)
	}
	for percentile, want := range map[float64]int64{1: 200_000, 60: 200_000, 100: 500_000} {
		if got := h.ValueAtPercentile(percentile); got < want*999/1000 || got > want*1001/1000 {
			t.Errorf("%v %%: %d µs, want %d", percentile, got, want)
		}
	}
	if d.Completed != 3 || d.Backlog != 0 {
		t.Errorf("%+v", d)
	}
}
