package supervise

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// hangScript is a fleet of ready workers with a HangTimeout of 9 seconds, so they are
// probed every 3.
func hangScript(t *testing.T, workers int, change func(*Config)) *script {
	t.Helper()
	c := Config{
		Workers: workers, Sockets: noSockets, Inboxes: true, HangTimeout: 9 * time.Second,
		Progress:         func(int, int) (uint64, bool) { return 0, false },
		RecoverThreshold: 100, RecoverInterval: time.Second,
	}
	if change != nil {
		change(&c)
	}
	s := newScript(t, c)
	s.start()
	s.sleep(0) // the runtime ticks at once
	return s
}

// run advances the time in ticks of a second and calls answer after each.
func (s *script) run(d time.Duration, answer func()) {
	for range int(d / time.Second) {
		s.sleep(time.Second)
		if answer != nil {
			answer()
		}
	}
}

// pong lets workers answer.
func (s *script) pong(keys ...key) func() {
	return func() {
		last := s.last
		for _, k := range keys {
			s.feed(event{kind: evPong, worker: k})
		}
		s.last = last
	}
}

// phase returns the phase of a worker that exists.
func (s *script) phase(k key) Phase {
	s.t.Helper()
	_, w := s.fleet.find(k)
	if w == nil {
		s.t.Fatalf("no worker %v; log:\n%s", k, strings.Join(s.log, "\n"))
	}
	return w.phase
}

// logs reports whether a line of the log contains text.
func (s *script) logs(text string) bool {
	return slices.ContainsFunc(s.log, func(line string) bool { return strings.Contains(line, text) })
}

// Workers are probed three times in HangTimeout, but neither too often nor too rarely.
func TestProbeInterval(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		3 * time.Second: time.Second, 30 * time.Millisecond: 50 * time.Millisecond, time.Minute: 5 * time.Second,
	} {
		f := newFleet(Config{Workers: 1, HangTimeout: timeout}, 1)
		if got := f.probeInterval(); got != want {
			t.Errorf("HangTimeout %v: a probe every %v, want %v", timeout, got, want)
		}
	}
}

func TestHungWorkerIsReplaced(t *testing.T) {
	s := hangScript(t, 2, nil)
	s.want(actPing, actLook, actPing, actLook)
	s.run(8*time.Second, s.pong(key{1, 1}))
	if s.phase(key{0, 1}) != PhaseReady {
		t.Fatal("too early")
	}
	s.sleep(time.Second)
	// The replacement comes first, then the dump. Before both, the others learn that it hangs.
	s.want(actHung, actPing, actLook, actSpawn, actAdopt, actDump)
	if s.last[0].worker != (key{0, 1}) || s.last[0].pid != 101 || s.last[4].worker != (key{1, 1}) || s.last[4].slot != 0 || s.last[5].worker != (key{0, 1}) {
		t.Errorf("%+v", s.last)
	}
	if !s.logs("worker 0.1 (pid 101): hangs: no answer to a PING for 9s (1 of 100 deaths allowed)") {
		t.Errorf("log:\n%s", strings.Join(s.log, "\n"))
	}
	s.feed(event{kind: evPong, worker: key{0, 1}}) // too late
	s.feed(event{kind: evRecycle, worker: key{0, 1}})
	s.sleep(2 * time.Second)
	s.want(actKill)
	s.boot(0, 2)
	s.want(actRelease)
	s.exit(0, 1)
	s.want()
	st := s.fleet.status()
	if one := st.Slots[0]; one.Hangs != 1 || one.Crash != "hangs: no answer to a PING for 9s" || one.Crashed.IsZero() || one.Crashes != 1 || one.Restarts != 1 || st.Crashes != 1 || len(one.Workers) != 1 {
		t.Errorf("%+v", st)
	}
}

// The queue is a second probe: a worker that answers PINGs and accepts nothing hangs,
// too.
//
// While a worker is being replaced, the only other one does not count as hanging: a
// busy machine makes both late.
func TestHangWhileASuccessorBoots(t *testing.T) {
	s := hangScript(t, 2, nil)
	s.run(8*time.Second, s.pong(key{1, 1}))
	s.sleep(time.Second)
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.feed(event{kind: evExited, worker: key{0, 1}, text: "signal: quit"})
	s.run(12*time.Second, nil)
	if s.phase(key{1, 1}) != PhaseReady {
		t.Fatalf("log:\n%s", strings.Join(s.log, "\n"))
	}
	s.feed(event{kind: evReady, worker: key{0, 2}})
	s.sleep(time.Second)
	if s.phase(key{1, 1}) != PhaseHung {
		t.Errorf("it never is; log:\n%s", strings.Join(s.log, "\n"))
	}
}

func TestQueueThatStandsStill(t *testing.T) {
	table := []struct {
		name  string
		look  func(second int) event
		hangs bool
	}{
		{"stands still", func(int) event { return event{number: 5, progress: 7, ready: true} }, true},
		{"grows", func(s int) event { return event{number: s, progress: 7, ready: true} }, true},
		{"moves", func(s int) event { return event{number: 5, progress: uint64(s), ready: true} }, false},
		{"is empty", func(int) event { return event{} }, false},
		{"was empty", func(s int) event { return event{number: s % 3, progress: 7, ready: true} }, false},
		{"the progress is unknown", func(int) event { return event{number: 5, progress: 7} }, false},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			s := hangScript(t, 2, nil)
			answer := s.pong(key{0, 1}, key{1, 1})
			for second := range 12 {
				s.sleep(time.Second)
				answer()
				look := c.look(second + 1)
				look.kind, look.worker = evQueue, key{0, 1}
				s.feed(look)
			}
			if hangs := s.fleet.status().Slots[0].Hangs > 0; hangs != c.hangs {
				t.Errorf("hangs: %v; log:\n%s", hangs, strings.Join(s.log, "\n"))
			}
			if c.hangs && !s.logs("connections wait and none was accepted for 9s") {
				t.Errorf("log:\n%s", strings.Join(s.log, "\n"))
			}
		})
	}
}

// Hanging workers are treated one at a time, each after the one before was replaced;
// all at once if none is well.
func TestHangsAreTreatedOneAtATime(t *testing.T) {
	s := hangScript(t, 3, nil)
	s.run(9*time.Second, s.pong(key{2, 1}))
	if s.phase(key{0, 1}) != PhaseHung || s.phase(key{1, 1}) != PhaseReady {
		t.Fatalf("log:\n%s", strings.Join(s.log, "\n"))
	}
	s.exit(0, 1)
	s.run(3*time.Second, s.pong(key{2, 1}))
	if s.phase(key{1, 1}) != PhaseReady {
		t.Fatal("the first has no successor yet")
	}
	s.boot(0, 2)
	s.sleep(time.Second)
	if s.phase(key{1, 1}) != PhaseHung {
		t.Fatalf("log:\n%s", strings.Join(s.log, "\n"))
	}

	s = hangScript(t, 3, nil)
	s.run(9*time.Second, nil)
	for slot := range 3 {
		if s.phase(key{slot, 1}) != PhaseHung || s.phase(key{slot, 2}) != PhaseSpawned {
			t.Errorf("slot %d; log:\n%s", slot, strings.Join(s.log, "\n"))
		}
	}

	// A slot that gets no replacement does not protect the others for ever.
	s = hangScript(t, 3, nil)
	s.run(9*time.Second, s.pong(key{2, 1}))
	s.exit(0, 1)
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.run(31*time.Second, s.pong(key{2, 1}))
	if s.phase(key{1, 1}) != PhaseHung {
		t.Fatalf("log:\n%s", strings.Join(s.log, "\n"))
	}
}

// A worker that stood still together with the master does not hang.
func TestTimeThatTheMasterMissed(t *testing.T) {
	s := hangScript(t, 2, nil)
	s.run(6*time.Second, s.pong(key{0, 1}, key{1, 1}))
	for range 5 {
		s.sleep(time.Hour)
		s.want(actPing, actLook, actPing, actLook)
	}
	if !s.logs("the master stood still for 1h0m0s") {
		t.Errorf("log:\n%s", strings.Join(s.log, "\n"))
	}
	s.run(8*time.Second, nil)
	if s.phase(key{0, 1}) != PhaseReady {
		t.Error("the clocks did not start anew")
	}
	s.run(time.Second, nil)
	if s.phase(key{0, 1}) != PhaseHung {
		t.Error("the clocks did not start")
	}
}

// A time without workers to watch is no time that the master missed.
func TestNobodyToWatch(t *testing.T) {
	s := hangScript(t, 1, nil)
	s.exit(0, 1)
	s.sleep(time.Minute)
	s.boot(0, 2)
	s.sleep(3 * time.Second)
	s.want(actPing, actLook)
	s.feed(event{kind: evPause})
	s.exit(0, 2)
	s.sleep(time.Hour)
	s.feed(event{kind: evRestart})
	s.boot(0, 3)
	s.sleep(3 * time.Second)
	s.want(actPing, actLook)
	if s.logs("stood still") {
		t.Errorf("log:\n%s", strings.Join(s.log, "\n"))
	}
}

// Without a timeout no worker is watched, and a bare worker never is.
func TestWhoIsNotWatched(t *testing.T) {
	s := hangScript(t, 2, func(c *Config) { c.HangTimeout = 0 })
	s.sleep(time.Hour)
	s.want()
	if next := s.fleet.next(); !next.IsZero() {
		t.Errorf("a timer for %v", next)
	}
	s = newScript(t, Config{Workers: 1, Sockets: noSockets, HangTimeout: time.Second})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 7, ready: true})
	s.sleep(time.Hour)
	s.want()
	if next := s.fleet.next(); !next.IsZero() {
		t.Errorf("a timer for %v", next)
	}
	s.feed(event{kind: evAttached, worker: key{0, 1}})
	s.sleep(time.Second)
	s.want(actPing)
	s = hangScript(t, 2, func(c *Config) { c.SharedSockets = true })
	s.want(actPing, actPing)
}

// The machine requests the ticks that it needs.
func TestWatchAsksForTicks(t *testing.T) {
	for _, answered := range []time.Duration{0, 300 * time.Millisecond} { // the last time, between two probes
		s := hangScript(t, 2, nil)
		s.now = s.now.Add(answered)
		s.pong(key{0, 1})()
		for range 100 {
			next := s.fleet.next()
			if next.IsZero() {
				t.Fatal("no tick is asked for")
			}
			if next.After(s.now) {
				s.now = next
			}
			s.feed(event{kind: evTick})
			s.pong(key{1, 1})()
			if s.phase(key{0, 1}) == PhaseHung {
				break
			}
		}
		if late := s.now.Sub(time.Unix(1e9, 0)); s.phase(key{0, 1}) != PhaseHung || late != answered+9*time.Second {
			t.Errorf("answered after %v: found after %v", answered, late)
		}
	}
}

// A stop ends a hanging worker in its time, too.
func TestStopWhileAWorkerHangs(t *testing.T) {
	s := hangScript(t, 2, nil)
	s.run(9*time.Second, s.pong(key{1, 1}))
	s.feed(event{kind: evStop})
	s.want(actStopping, actDrain) // the fork has not returned: the sockets stay open
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.want(actSpawned, actRecover, actTerm, actCloseSockets)
	s.sleep(2 * time.Second)
	s.want(actKill)
	s.exit(0, 1)
	s.exit(0, 2)
	s.exit(1, 1)
	s.want(actFinish)

	s = hangScript(t, 2, func(c *Config) { c.RecoverThreshold = 0 })
	s.run(9*time.Second, s.pong(key{1, 1}))
	if s.phase(key{0, 1}) != PhaseHung || s.fleet.mode != modeStopping || !errors.Is(s.fleet.result, ErrOverRecovery) {
		t.Errorf("mode %v, %v", s.fleet.mode, s.fleet.result)
	}
	if kinds := s.kinds(); !slices.Contains(kinds, actDump) || !slices.Contains(kinds, actDrain) {
		t.Errorf("actions %v", kinds)
	}
}

// kinds returns the kinds of the last actions.
func (s *script) kinds() []actionKind {
	var all []actionKind
	for _, a := range s.last {
		all = append(all, a.kind)
	}
	return all
}

// With shared sockets only the inbox is lent. That is no successor for the sockets.
func TestInboxesOfSharedSockets(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, SharedSockets: true, Inboxes: true, RecoverThreshold: 9})
	s.start()
	s.exit(0, 1)
	if hasInboxes {
		s.want(actSpawn, actAdopt)
		s.boot(0, 2)
		s.want(actRelease)
	}
	s = newScript(t, Config{Workers: 2, Inboxes: true, RecoverThreshold: 9})
	s.start()
	s.feed(event{kind: evScale, number: 1})
	for _, a := range s.last {
		if a.kind == actDrain && a.hasSuccessor {
			t.Errorf("%+v", a)
		}
	}
}

// Without hang detection, and in a fleet that stops, no worker is probed and no
// missed time is reported.
func TestNobodyIsWatched(t *testing.T) {
	s := hangScript(t, 2, func(c *Config) { c.HangTimeout = 0 })
	for range 3 {
		s.sleep(time.Hour)
		s.want()
	}
	if s.logs("stood still") {
		t.Errorf("without a HangTimeout:\n%s", strings.Join(s.log, "\n"))
	}
	s = hangScript(t, 2, func(c *Config) { c.GracePeriod = 24 * time.Hour })
	s.feed(event{kind: evStop})
	for range 3 {
		s.sleep(time.Hour)
		s.want()
	}
	if s.logs("stood still") {
		t.Errorf("while it stops:\n%s", strings.Join(s.log, "\n"))
	}
}

// A queue counts as moving when it is empty or unknown, at its first probe, and when
// there is progress.
func TestQueueMoves(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		hadQueue, known      bool
		waiting              int
		progress             uint64
		isMoved, hasQueueNow bool
	}{
		{hadQueue: true, known: true, waiting: 1, progress: 7, hasQueueNow: true},
		{hadQueue: true, known: true, waiting: 1, progress: 8, isMoved: true, hasQueueNow: true},
		{hadQueue: true, known: true, waiting: 0, progress: 7, isMoved: true},
		{hadQueue: true, known: false, waiting: 1, progress: 7, isMoved: true},
		{hadQueue: false, known: true, waiting: 1, progress: 7, isMoved: true, hasQueueNow: true},
	} {
		f, w := &fleet{now: start.Add(time.Second)}, &worker{}
		w.vitals = vitals{moved: start, progress: 7, hasQueue: c.hadQueue}
		f.looked(w, c.waiting, c.progress, c.known)
		v := w.vitals
		if v.moved.Equal(f.now) != c.isMoved || v.hasQueue != c.hasQueueNow || v.queue != c.waiting || v.progress != c.progress {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}
