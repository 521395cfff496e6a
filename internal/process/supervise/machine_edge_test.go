package supervise

import (
	"errors"
	"testing"
	"time"
)

// A slot with sockets is served by another slot's worker even if its own first worker
// cannot be started. A slot without sockets is not.
func TestFailedSpawnLeavesSockets(t *testing.T) {
	for _, isOpen := range []bool{true, false} {
		s := newScript(t, Config{Workers: 2, MaxWorkers: 3, Sockets: noSockets})
		s.start()
		s.feed(event{kind: evScale, number: 3})
		s.want(actSpawn)
		s.feed(event{kind: evSpawnFailed, worker: key{2, 1}, err: errors.New("no"), ready: isOpen})
		if !isOpen {
			s.want()
			continue
		}
		s.want(actAdopt)
		if a := s.last[0]; a.slot != 2 || a.worker.slot == 2 {
			t.Errorf("adopted: %+v", a)
		}
		// A failed attempt before does not change that.
		s.sleep(s.fleet.next().Sub(s.now))
		s.want(actSpawn)
		s.feed(event{kind: evSpawnFailed, worker: key{2, 2}, err: errors.New("no")})
		if !s.fleet.slots[2].opened {
			t.Error("the sockets are forgotten")
		}
	}
}

// The status reports the fleet's mode.
func TestStatusOfModes(t *testing.T) {
	for m, want := range map[mode]struct{ isPaused, isStopping bool }{
		modeRunning: {}, modePaused: {isPaused: true}, modeStopping: {isStopping: true},
		modeKilling: {isStopping: true}, modeFinished: {isStopping: true},
	} {
		s := newScript(t, Config{Workers: 1})
		s.start()
		s.fleet.mode = m
		if st := s.fleet.status(); st.Paused != want.isPaused || st.Stopping != want.isStopping || st.Ready != (m == modeRunning) {
			t.Errorf("mode %d: %+v", m, st)
		}
	}
}

// Sockets are adopted by the worker that has adopted the fewest.
func TestAdoptionsAreSpread(t *testing.T) {
	s := newScript(t, Config{Workers: 5, RecoverThreshold: 9, Sockets: noSockets})
	s.start()
	load := make(map[int]int)
	for _, slot := range []int{4, 3} {
		s.exit(slot, 1)
		for _, a := range s.last {
			if a.kind == actAdopt {
				load[a.worker.slot]++
			}
		}
	}
	if len(load) != 2 {
		t.Fatalf("adoptions by slot: %v", load)
	}
	for slot, n := range load {
		if w := s.fleet.slots[slot].serving; n != 1 || s.fleet.adoptions(w) != 1 {
			t.Errorf("slot %d: %d, counted %d", slot, n, s.fleet.adoptions(w))
		}
	}
	if n := s.fleet.adoptions(s.fleet.slots[2].serving); n != 0 {
		t.Errorf("slot 2: %d", n)
	}
}

// A stop does not begin twice, and the first result holds.
func TestStopsOnce(t *testing.T) {
	s := newScript(t, Config{Workers: 1})
	s.start()
	s.feed(event{kind: evStop})
	s.fleet.actions = nil
	s.fleet.stop(ErrOverRecovery)
	if s.fleet.result != nil || len(s.fleet.actions) != 0 {
		t.Errorf("%v; %+v", s.fleet.result, s.fleet.actions)
	}
	s.feed(event{kind: evQuit})
	s.want(actDumpSelf, actDump)
	s.said("SIGQUIT")
	s.exit(0, 1)
	s.want(actFinish)

	s = newScript(t, Config{Workers: 1})
	s.start()
	s.feed(event{kind: evKill})
	s.want(actStopping, actKill)
	s.fleet.stop(nil)
	if s.fleet.mode != modeKilling {
		t.Errorf("mode %d", s.fleet.mode)
	}
	s.exit(0, 1)
	s.want(actFinish)
	if n := len(s.fleet.crashes); n > 0 {
		t.Errorf("%d crashes, of a worker that was killed on purpose", n)
	}
}

// A worker that was being killed when the stop began is no crash.
func TestKilledBeforeTheStop(t *testing.T) {
	s := newScript(t, Config{Workers: 1, BootTimeout: time.Minute})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 9})
	s.sleep(time.Minute)
	s.want(actKill)
	s.feed(event{kind: evStop})
	s.exit(0, 1)
	s.want(actFinish)
	if s.last[0].err != nil || s.fleet.crashesTotal != 0 {
		t.Errorf("%v, %d crashes", s.last[0].err, s.fleet.crashesTotal)
	}
}

// A worker that is not probed never counts as hanging: none without a HangTimeout,
// and none that cannot answer.
func TestSymptomsOfWhoIsAsked(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets})
	s.start()
	s.sleep(time.Hour)
	for slot := range 2 {
		if text, since := s.fleet.symptom(s.fleet.slots[slot].serving); text != "" || !since.IsZero() {
			t.Errorf("without HangTimeout: %q since %v", text, since)
		}
	}
	s = newScript(t, Config{Workers: 1, Sockets: noSockets, HangTimeout: time.Second})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 9, ready: true})
	for range 100 {
		s.sleep(100 * time.Millisecond)
		s.want()
	}
	if text, _ := s.fleet.symptom(s.fleet.slots[0].serving); text != "" {
		t.Errorf("it cannot answer: %q", text)
	}
}

// A worker that is told to end before its process exists gets SIGTERM when the
// process starts: it has no control channel yet.
func TestLeavingBeforeSpawned(t *testing.T) {
	s := newScript(t, Config{Workers: 1, MaxWorkers: 3})
	s.start()
	s.feed(event{kind: evScale, number: 2})
	s.want(actSpawn)
	s.feed(event{kind: evScale, number: 1})
	s.want()
	s.feed(event{kind: evSpawned, worker: key{1, 1}, pid: 200})
	s.want(actSpawned, actTerm)
	s.exit(1, 1)
	s.want()
}

// A retired slot forgets its pause and its dead worker.
func TestRetiredSlotsForget(t *testing.T) {
	s := newScript(t, Config{Workers: 2})
	s.start()
	slot := s.fleet.slots[1]
	slot.respawnAt, slot.unready, slot.lastDead = s.now.Add(time.Hour), 3, 5
	s.feed(event{kind: evScale, number: 1})
	if !slot.retired || !slot.respawnAt.IsZero() || slot.unready != 0 || slot.lastDead != 0 {
		t.Errorf("%+v", slot)
	}
}

// A drain that is asked for again after the successor has died: a worker that boots, or is
// about to, takes its place. What the worker has handed over waits for that one, and must not
// be taken back. Without one before the worker's time is over, there is no successor.
func TestDrainIsRepeatedWithoutSuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		pause        time.Duration // before the next worker boots
		hasSuccessor bool
	}{"boots": {0, true}, "is about to boot": {100 * time.Millisecond, true}, "boots late": {time.Minute, false}} {
		s := newScript(t, Config{Workers: 1, Sockets: noSockets, DrainTimeout: time.Second, RecoverThreshold: 9})
		s.start()
		s.feed(event{kind: evRestart})
		s.boot(0, 2)
		s.exit(0, 2)
		if c.pause > 0 {
			slot := s.fleet.slots[0]
			s.fleet.remove(slot, slot.serving)
			slot.respawnAt = s.now.Add(c.pause)
		}
		s.feed(event{kind: evRecycle, worker: key{0, 1}})
		s.want(actDrain)
		if a := s.last[0]; a.worker != (key{0, 1}) || a.hasSuccessor != c.hasSuccessor {
			t.Errorf("another %s: %+v", name, a)
		}
	}
}

// A drain that is asked for again gets the time that remains, and in the end none.
func TestDrainIsRepeated(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, DrainTimeout: time.Second})
	s.start()
	s.feed(event{kind: evRestart})
	s.boot(0, 2)
	for passed, left := range map[time.Duration]time.Duration{400 * time.Millisecond: 600 * time.Millisecond, 1200 * time.Millisecond: 0} {
		began := s.now
		s.now = began.Add(passed)
		s.feed(event{kind: evRecycle, worker: key{0, 1}})
		s.want(actDrain)
		if a := s.last[0]; a.worker != (key{0, 1}) || a.grace != left || !a.hasSuccessor {
			t.Errorf("after %v: %+v, want %v", passed, a, left)
		}
		s.now = began
	}
}
