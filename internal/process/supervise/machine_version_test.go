package supervise

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// upgrade asks for a restart with a new binary, and boots the workers of so many slots.
func (s *script) upgrade(ticket, slots int) *executable {
	s.t.Helper()
	binary := &executable{}
	s.feed(event{kind: evRestart, number: ticket, version: &version{cause: CauseUpgrade, binary: binary}})
	for slot := range slots {
		s.boot(slot, 2)
		s.exit(slot, 1)
	}
	return binary
}

// serves checks the versions with which the slots are served, 0 for none.
func (s *script) serves(want ...int) {
	s.t.Helper()
	var got []int
	for _, slot := range s.fleet.active() {
		number := 0
		if slot.served() {
			number = slot.serving.version.number
		}
		got = append(got, number)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the slots are served by versions %v, want %v; log:\n%s", got, want, strings.Join(s.log, "\n"))
	}
}

// A version becomes the good one when all slots have had it for Soak.
func TestSoak(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, Soak: 10 * time.Second})
	s.start()
	s.upgrade(1, 2)
	s.want()
	if next := s.fleet.next(); !next.Equal(s.now.Add(10 * time.Second)) {
		t.Errorf("the next step is at %v", next)
	}
	if st := s.fleet.status(); st.Rolling || !st.Soaking || st.Version != 2 || st.GoodVersion != 1 || st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
	s.sleep(10*time.Second - 1)
	s.want()
	s.sleep(1)
	s.answered(nil, 1)
	if st := s.fleet.status(); st.Soaking || st.GoodVersion != 2 || st.Restarts != 1 || st.Slots[1].Version != 2 || st.Slots[1].Cause != CauseUpgrade {
		t.Errorf("%+v", st)
	}
	s.exit(0, 2) // a crash as any other
	if s.fleet.crashesTotal != 1 {
		t.Errorf("%d crashes", s.fleet.crashesTotal)
	}
}

// In each way in which a worker of a new version can fail, all slots get the old version back, one
// after the other, and no crash is counted.
func TestRollback(t *testing.T) {
	for _, c := range []struct {
		name  string
		slots int // that have the new version when it fails
		fails func(s *script)
		why   string
	}{
		{"dies before it is ready", 1, func(s *script) {
			s.feed(event{kind: evSpawned, worker: key{1, 2}, pid: 7})
			s.exit(1, 2)
		}, "slot 1: exit status 1"},
		{"is never ready", 1, func(s *script) {
			s.feed(event{kind: evSpawned, worker: key{1, 2}, pid: 7})
			s.sleep(time.Minute)
			s.exit(1, 2)
		}, "slot 1: not ready after 1m0s"},
		{"cannot be started", 1, func(s *script) {
			s.feed(event{kind: evSpawnFailed, worker: key{1, 2}, err: errors.New("exec format error")})
		}, "slot 1: exec format error"},
		{"dies while it serves", 2, func(s *script) {
			s.now = s.now.Add(time.Second)
			s.exit(0, 2)
		}, "slot 0: exit status 1, 1s after it was ready"},
		{"dies while another one boots", 1, func(s *script) {
			s.feed(event{kind: evSpawned, worker: key{1, 2}, pid: 7})
			s.exit(0, 2)
			s.exit(1, 2)
		}, "slot 0: exit status 1, 0s after it was ready"},
		{"hangs", 2, func(s *script) {
			s.run(4*time.Second, s.pong(key{0, 2}))
			s.exit(1, 2)
		}, "slot 1: hangs: no answer to a PING for 3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, Config{Workers: 2, Sockets: noSockets, Soak: 10 * time.Second, BootTimeout: time.Minute, HangTimeout: 3 * time.Second})
			if c.name == "is never ready" {
				s.fleet.config.HangTimeout = 0
			}
			s.start()
			binary := s.upgrade(1, c.slots)
			c.fails(s)
			if s.fleet.target != s.fleet.good || s.fleet.good.number != 1 {
				t.Fatalf("the target is version %d", s.fleet.target.number)
			}
			isClosed := false
			for _, a := range s.last {
				isClosed = isClosed || a.kind == actForget && a.binary == binary
			}
			for range 10 { // boot what the machine starts
				s.fleet.each(func(_ *slot, w *worker) {
					if w.phase == PhaseSpawned {
						if w.version != s.fleet.good {
							t.Errorf("%v has version %d", w.key, w.version.number)
						}
						s.boot(w.slot, w.generation)
					}
				})
			}
			s.serves(1, 1)
			st := s.fleet.status()
			if st.Crashes != 0 || st.RestartsFailed != 1 || !strings.Contains(st.RestartError, c.why) || st.Rolling || st.Restarts != 0 {
				t.Errorf("%+v, want %q", st, c.why)
			}
			if c.slots > 1 && (st.Slots[0].Cause != CauseRollback || st.Slots[0].Version != 1) {
				t.Errorf("%+v", st.Slots[0])
			}
		})
	}
}

// The caller is told of a failed restart when all slots have the old version. Its binary
// is closed when nothing is started from it any more.
func TestRollbackIsAwaited(t *testing.T) {
	s := newScript(t, Config{Workers: 3, Sockets: noSockets, Soak: 10 * time.Second})
	s.start()
	binary := s.upgrade(1, 3)
	s.upgrade(2, 0) // waits
	s.want()
	s.exit(1, 2)
	s.want(actForget, actSpawn, actSpawn, actAdopt)
	if s.last[0].binary != binary {
		t.Error("another binary is closed")
	}
	s.boot(1, 3)
	if s.fleet.crashesTotal > 0 || s.fleet.rolling != rollingBack {
		t.Fatalf("%d crashes, phase %d", s.fleet.crashesTotal, s.fleet.rolling)
	}
	s.boot(0, 3)
	s.serves(1, 1, 2)
	s.boot(2, 3)
	s.answered(errors.New("sluice: rolling restart failed in slot 1: exit status 1, 0s after it was ready"), 1)
	if f := s.fleet; f.rolling != rollingForward || f.target.number != 3 || len(f.waiting) != 1 {
		t.Errorf("the restart that waits: phase %d, version %d, waiting %v", f.rolling, f.target.number, f.waiting)
	}
}

// A restart that is asked for during a rollback begins at once: it may be what helps if
// the old version cannot start either.
func TestRestartDuringRollback(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, Soak: time.Hour, RecoverInterval: time.Minute, RecoverThreshold: 9})
	s.start()
	s.upgrade(1, 1)
	s.feed(event{kind: evRecycle, worker: key{0, 2}, text: "model"})
	s.boot(0, 3)
	s.exit(0, 3)
	s.answered(errors.New("sluice: rolling restart failed in slot 0: exit status 1, 0s after it was ready"), 1)

	s = newScript(t, Config{Workers: 2, Sockets: noSockets, Soak: time.Hour, RecoverInterval: time.Minute, RecoverThreshold: 9})
	s.start()
	s.upgrade(1, 2)
	s.exit(0, 2)
	s.boot(0, 3)
	s.feed(event{kind: evSpawned, worker: key{1, 3}, pid: 7})
	s.exit(1, 3) // the old version fails
	s.want()
	if s.fleet.rolling != rollingBack || s.fleet.slots[1].respawnAt.IsZero() {
		t.Fatalf("phase %d", s.fleet.rolling)
	}
	s.feed(event{kind: evRestart, number: 2})
	s.answered(errors.New("sluice: rolling restart failed in slot 0: exit status 1, 0s after it was ready"), 1)
	s.boot(0, 4)
	s.boot(1, 4)
	s.serves(3, 3)
}

// While a restart is under way, a slot whose worker dies gets the good version, unless
// that one serves nowhere: then the new one may be what helps.
func TestVersionOfEmptySlot(t *testing.T) {
	s := newScript(t, Config{Workers: 3, Sockets: noSockets, Soak: time.Hour, RecoverThreshold: 99})
	s.start()
	s.upgrade(0, 1)
	s.feed(event{kind: evSpawned, worker: key{1, 2}, pid: 9})
	s.exit(2, 1)
	if w := s.fleet.slots[2].serving; w == nil || w.version.number != 1 {
		t.Fatalf("slot 2 gets %+v", w)
	}
	s.boot(2, 2)
	s.feed(event{kind: evReady, worker: key{1, 2}})
	s.boot(2, 3)
	s.serves(2, 2, 2)
	if s.fleet.rolling != rollingSoak || s.fleet.crashesTotal != 1 {
		t.Errorf("phase %d, %d crashes", s.fleet.rolling, s.fleet.crashesTotal)
	}

	s = newScript(t, Config{Workers: 1, Sockets: noSockets, RecoverThreshold: 99, RecoverInterval: time.Minute})
	s.start()
	s.feed(event{kind: evPause})
	s.exit(0, 1)
	s.feed(event{kind: evRestart})
	s.boot(0, 2)
	s.serves(2)
	s.exit(0, 2)
	s.feed(event{kind: evSpawned, worker: key{0, 3}, pid: 9})
	s.exit(0, 3)
	s.upgrade(0, 0)
	s.boot(0, 4)
	s.serves(3)
}

// A slot that is added while a new version must prove itself has it, too.
func TestScaleDuringSoak(t *testing.T) {
	s := newScript(t, Config{Workers: 1, MaxWorkers: 2, Sockets: noSockets, Soak: time.Minute})
	s.start()
	s.upgrade(1, 1)
	s.feed(event{kind: evScale, number: 2})
	s.sleep(time.Minute)
	s.want() // not before it is ready
	s.boot(1, 1)
	s.answered(nil, 1)
	s.serves(2, 2)
}

// A restart that is merged with an upgrade that waits uses the new binary.
func TestUpgradeIsNotForgotten(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets})
	s.start()
	s.feed(event{kind: evRestart})
	first := s.upgrade(0, 0)
	second := s.upgrade(0, 0)
	s.want(actForget)
	if s.last[0].binary != first {
		t.Error("the binary that is used is closed")
	}
	s.feed(event{kind: evRestart})
	s.want()
	s.boot(0, 2)
	s.exit(0, 1)
	s.boot(0, 3)
	if v := s.fleet.good; v.binary != second || v.cause != CauseUpgrade || v.number != 3 {
		t.Errorf("%+v", v)
	}
}

// someHolder is there. Nothing asks it.
type someHolder struct{ Holder }

// After an upgrade the master is replaced, too. If that fails it is tried again, with pauses that
// grow, and then after the next upgrade.
func TestReplaceMaster(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, Soak: time.Second, Holder: someHolder{}, Manages: "first", binary: &executable{id: "first"}})
	s.start()
	s.sleep(time.Hour)
	s.want() // it has the binary of the workers
	s.upgrade(1, 1)
	s.sleep(time.Second)
	s.want(actForget, actRestarted, actReplace)
	pause := firstReplacePause
	for range replaceRetries {
		s.feed(event{kind: evReplaced, err: errors.New("no memory")})
		s.want()
		s.said("no memory")
		if next := s.fleet.next(); !next.Equal(s.now.Add(pause)) {
			t.Errorf("the next step is at %v, want %v later", next, pause)
		}
		s.sleep(pause - 1)
		s.want()
		s.sleep(1)
		s.want(actReplace)
		s.sleep(time.Hour) // it takes its time
		s.want()
		pause *= 2
	}
	s.feed(event{kind: evReplaced, err: errors.New("no memory")})
	s.said("the master goes on with its own binary: no memory")
	s.sleep(time.Hour)
	s.want()
	s.feed(event{kind: evRestart, number: 2, version: &version{cause: CauseUpgrade, binary: &executable{id: "third"}}})
	s.boot(0, 3)
	s.exit(0, 2)
	s.sleep(time.Second)
	s.want(actForget, actRestarted, actReplace)
	s.feed(event{kind: evReplaced, err: errors.New("no memory")})
	s.sleep(firstReplacePause)
	s.want(actReplace)
	s.feed(event{kind: evReplaced})
	s.want(actHandOver)
}
