package backplanetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/backplane"
)

const (
	patience = 30 * time.Second
	tryAgain = 10 * time.Millisecond // a Join may not have an effect yet
)

// An event is a call of a Receiver.
type event struct {
	isGap bool
	room  string
	data  string
}

// A recorder is a Receiver that remembers all calls, and checks that they do not overlap.
type recorder struct {
	t *testing.T

	mu      sync.Mutex
	events  []event
	running map[string]bool // rooms
	blocked <-chan struct{} // calls wait for it
	more    chan struct{}   // closed with the next event
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{t: t, running: map[string]bool{}, more: make(chan struct{})}
}

// Received implements backplane.Receiver.
func (r *recorder) Received(room string, data []byte) {
	r.called(event{room: room, data: string(data)})
}

// Gap implements backplane.Receiver.
func (r *recorder) Gap(room string) { r.called(event{isGap: true, room: room}) }

func (r *recorder) called(e event) {
	r.mu.Lock()
	if r.running[e.room] {
		r.t.Errorf("two calls for room %.40q at the same time", e.room)
	}
	r.running[e.room] = true
	blocked := r.blocked
	r.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, e.room)
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// block lets calls wait for release; nil: not any more.
func (r *recorder) block(release <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked = release
}

func (r *recorder) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) count(is func(e event) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if is(e) {
			n++
		}
	}
	return n
}

func (r *recorder) has(want event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.events, want)
}

// takeLast reports whether the last event is this message, and forgets all then.
func (r *recorder) takeLast(data string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.events)
	if n == 0 || r.events[n-1].data != data {
		return false
	}
	r.events = nil
	return true
}

// await waits until an event has come.
func (r *recorder) await(want event) {
	r.t.Helper()
	r.wait(fmt.Sprintf("room %.40q, %d bytes: %.40q", want.room, len(want.data), want.data), func() bool { return r.has(want) })
}

func (r *recorder) refuse(e event) {
	r.t.Helper()
	if r.has(e) {
		r.t.Errorf("room %.40q got %.40q", e.room, e.data)
	}
}

// wait waits until a condition on the events is true.
func (r *recorder) wait(what string, isTrue func() bool) {
	r.t.Helper()
	if !r.waitFor(isTrue, patience) {
		r.t.Fatal("not received: " + what)
	}
}

func (r *recorder) waitFor(isTrue func() bool, long time.Duration) bool {
	end := time.After(long)
	for {
		r.mu.Lock()
		more := r.more
		r.mu.Unlock()
		if isTrue() {
			return true
		}
		select {
		case <-more:
		case <-end:
			return isTrue()
		}
	}
}

// reach publishes to a room until all of the others get it: their Joins have an effect.
func reach(t *testing.T, from backplane.Backplane, room string, others ...*recorder) {
	t.Helper()
	for _, r := range others {
		reachAll(t, from, []string{room}, r)
	}
}

// reachAll is reach for many rooms of one process. It waits longer each time, because what is
// published again fills the queues in the meantime.
func reachAll(t *testing.T, from backplane.Backplane, rooms []string, to *recorder) {
	t.Helper()
	end := time.Now().Add(patience)
	for wait := tryAgain; len(rooms) > 0; wait *= 2 {
		if time.Now().After(end) {
			t.Fatalf("messages to %d rooms do not arrive; one is %.40q", len(rooms), rooms[0])
		}
		probe := "probe " + end.String()
		for _, room := range rooms {
			publish(t, from, room, probe)
		}
		to.waitFor(func() bool { rooms = to.missing(rooms, probe); return len(rooms) == 0 }, wait)
	}
}

// missing returns the rooms that have not got data.
func (r *recorder) missing(rooms []string, data string) (missing []string) {
	got := map[string]bool{}
	r.mu.Lock()
	for _, e := range r.events {
		if e.data == data {
			got[e.room] = true
		}
	}
	r.mu.Unlock()
	for _, room := range rooms {
		if !got[room] {
			missing = append(missing, room)
		}
	}
	return missing
}
