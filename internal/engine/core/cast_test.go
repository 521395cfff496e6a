//go:build linux && (amd64 || arm64)

package core

import (
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A sender is a Source whose Send calls meanwhile, and then takes a part of p.
type sender struct {
	Source
	meanwhile func()
	takes     int
	errno     syscall.Errno
}

// Send implements Source.
func (s *sender) Send(_ int, p []byte, _ bool) (int, syscall.Errno) {
	s.meanwhile()
	return min(s.takes, len(p)), s.errno
}

// queued returns the connections that wait for a worker.
func (d *driver) queued() (fds []int) {
	q := &d.loops[0].queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ready.count > 0 {
		fd, _ := q.popLocked(&worker{})
		fds = append(fds, fd)
	}
	return fds
}

// What happens to a connection while Cast has it is not lost.
func TestCastAgainst(t *testing.T) {
	const fd = 5
	var d *driver
	var s *slot
	for _, test := range []struct {
		name      string
		timeout   time.Duration
		meanwhile func()
		isQueued  bool
		flags     uint64 // of a queued connection
	}{
		{"nothing", 0, func() {}, false, 0},
		{"input", 0, func() { d.deliver(fd, fd, flagInput) }, true, flagInput},
		{"the peer's end", 0, func() { d.deliver(fd, fd, flagInput|flagGone) }, true, flagInput | flagGone},
		{"room", 0, func() { d.deliver(fd, fd, flagOutput) }, false, 0},
		{"a prompt", 0, func() { d.deliver(fd, fd, flagPrompt) }, true, flagPrompt},
		{"a kill", 0, func() { d.deliver(fd, fd, flagKill) }, true, flagKill},
		{"another cast", 0, func() {
			if d.castTo(fd, fd, []byte("x")) {
				t.Error("two casts have sent at once")
			}
		}, false, 0},
		{"a deadline", time.Millisecond, func() {
			s.expiry.Store(max(tickOf(clock.Nanos()), 2) - 1) // as if it had taken long
			d.sweep.round()
			d.sweep.pause = time.Hour // the test begins the next round
		}, false, 0},
		{"DetachIdle", 0, func() {
			if s.claim(flagTake, flagFixed|flagTLS) {
				t.Error("DetachIdle has claimed it")
			}
		}, false, 0},
		{"Shutdown", 0, func() {
			d.life.Reach(engine.StageShutDown)
			if s.claimIdle(flagEvict) {
				t.Error("Shutdown has claimed it")
			}
		}, true, flagEvict},
	} {
		t.Run(test.name, func(t *testing.T) {
			d = swept()
			d.source = &sender{d.source, test.meanwhile, 100, 0}
			s = d.waits(fd, test.timeout)
			defer d.sweep.close()
			missed := 0
			d.Cast([]engine.Target{{Index: fd, Generation: fd}}, []byte("frame"), func(int) { missed++ })
			if missed != 0 {
				t.Error("the connection was missed")
			}
			word := s.word.Load()
			if fds := d.queued(); (len(fds) == 1) != test.isQueued {
				t.Errorf("queued: %v", fds)
			}
			if isIdle(word) == test.isQueued || word&test.flags != test.flags {
				t.Errorf("state %b", word)
			}
			if test.timeout == 0 {
				return
			}
			if d.sweep.next.Load() == 0 {
				t.Error("the deadline that the sweep has skipped is not scheduled")
			}
			d.sweep.round()
			if len(d.queued()) != 1 || !s.has(flagExpired) {
				t.Error("the next round does not claim it")
			}
		})
	}
}

// Cast sends only where nothing else is to be sent or received, and never to a later
// connection.
func TestCastMisses(t *testing.T) {
	for _, test := range []struct {
		name   string
		target engine.Target
		parked uint64 // how the connection 5 waits
		takes  int
		errno  syscall.Errno
		misses bool
	}{
		{"idle", engine.Target{Index: 5, Generation: 5}, 0, 10, 0, false},
		{"in the middle of a request", engine.Target{Index: 5, Generation: 5}, flagPartial, 10, 0, true},
		{"with output", engine.Target{Index: 5, Generation: 5}, flagPartial | flagBlocked, 10, 0, true},
		{"TLS", engine.Target{Index: 5, Generation: 5}, flagTLS, 10, 0, true},
		{"half closed", engine.Target{Index: 5, Generation: 5}, flagGone, 10, 0, true},
		{"no room", engine.Target{Index: 5, Generation: 5}, 0, 0, syscall.EAGAIN, true},
		{"reset", engine.Target{Index: 5, Generation: 5}, 0, 0, syscall.ECONNRESET, true},
		{"another generation", engine.Target{Index: 5, Generation: 6}, 0, 10, 0, true},
		{"no such connection", engine.Target{Index: 6, Generation: 5}, 0, 10, 0, true},
		{"no such chunk", engine.Target{Index: 1 << 30, Generation: 5}, 0, 10, 0, true},
		{"zero", engine.Target{}, 0, 10, 0, true},
		{"negative", engine.Target{Index: -1, Generation: 5}, 0, 10, 0, true},
	} {
		d := swept()
		sends := 0
		d.source = &sender{d.source, func() { sends++ }, test.takes, test.errno}
		s := d.waits(5, 0)
		s.word.Or(test.parked)
		before := s.word.Load()
		misses := false
		d.Cast([]engine.Target{test.target}, []byte("frame"), func(int) { misses = true })
		if misses != test.misses || s.word.Load() != before || len(d.queued()) != 0 {
			t.Errorf("%s: missed %v, state %b, was %b", test.name, misses, s.word.Load(), before)
		}
		if hasSent := sends > 0; hasSent == test.misses && test.errno == 0 {
			t.Errorf("%s: %d sends", test.name, sends)
		}
	}
}
