package supervise

import (
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

// noSockets is a Sockets function that returns no sockets.
func noSockets(int) ([]*os.File, error) { return nil, nil }

// script feeds events to a machine, one after the other.
type script struct {
	t     *testing.T
	fleet *fleet
	now   time.Time
	last  []action // of the last event, without logs
	log   []string
	pid   int
}

func newScript(t *testing.T, c Config) *script {
	t.Helper()
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &script{t: t, fleet: newFleet(c, 1), now: time.Unix(1e9, 0), pid: 100}
}

// feed gives e to the machine.
func (s *script) feed(e event) {
	s.last = nil
	if e.kind == evRestart && e.version == nil {
		e.version = &version{cause: CauseRestart}
	}
	for _, a := range s.fleet.step(e, s.now) {
		if a.kind == actLog {
			s.log = append(s.log, a.text)
		} else {
			s.last = append(s.last, a)
		}
	}
}

// boot lets worker slot.generation start and become ready.
func (s *script) boot(slot, generation int) {
	s.t.Helper()
	k := key{slot, generation}
	if _, w := s.fleet.find(k); w == nil {
		s.t.Fatalf("worker %v was not started; log:\n%s", k, strings.Join(s.log, "\n"))
	}
	s.pid++
	s.feed(event{kind: evSpawned, worker: k, pid: s.pid})
	s.feed(event{kind: evReady, worker: k})
}

// start boots all workers.
func (s *script) start() {
	s.t.Helper()
	s.feed(event{kind: evStart})
	for slot := range s.fleet.wanted {
		s.boot(slot, 1)
	}
}

// exit ends a worker.
func (s *script) exit(slot, generation int) {
	s.feed(event{kind: evExited, worker: key{slot, generation}, text: "exit status 1"})
}

// sleep advances the time and then ticks.
func (s *script) sleep(d time.Duration) {
	s.now = s.now.Add(d)
	s.feed(event{kind: evTick})
}

// said checks that the last line of the log contains text.
func (s *script) said(text string) {
	s.t.Helper()
	if line := s.log[len(s.log)-1]; !strings.Contains(line, text) {
		s.t.Errorf("the log ends with %q, which does not say %q", line, text)
	}
}

// want checks the kinds of the last actions.
func (s *script) want(kinds ...actionKind) {
	s.t.Helper()
	var got []actionKind
	for _, a := range s.last {
		got = append(got, a.kind)
	}
	if !reflect.DeepEqual(got, kinds) {
		s.t.Fatalf("actions %v, want %v; log:\n%s", got, kinds, strings.Join(s.log, "\n"))
	}
}

func TestFirstStart(t *testing.T) {
	s := newScript(t, Config{Workers: 2})
	s.feed(event{kind: evStart})
	s.want(actSpawn, actSpawn)
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 7})
	s.want(actSpawned)
	s.feed(event{kind: evSpawned, worker: key{1, 1}, pid: 8})
	s.want(actSpawned, actStarted)
	if got := s.last[1].pids; !reflect.DeepEqual(got, []int{7, 8}) {
		t.Errorf("started with %v", got)
	}
	s.feed(event{kind: evReady, worker: key{1, 1}})
	s.want()
	s.feed(event{kind: evReady, worker: key{0, 1}})
	s.want(actAllReady)
}

func TestFirstStartFails(t *testing.T) {
	cannot := errors.New("no such binary")
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 9})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 7})
	s.feed(event{kind: evSpawnFailed, worker: key{1, 1}, err: cannot})
	s.want(actStopping, actKill)
	s.exit(0, 1)
	s.want(actFinish)
	if s.last[0].err != cannot {
		t.Errorf("ended with %v", s.last[0].err)
	}

	s = newScript(t, Config{Workers: 1, RecoverThreshold: 9})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 7})
	s.feed(event{kind: evFatal, worker: key{0, 1}, failure: &BootError{Class: "bind", Text: "in use"}})
	s.exit(0, 1)
	s.want(actStopping, actFinish)
	if boot := (*BootError)(nil); !errors.As(s.last[1].err, &boot) || boot.Class != "bind" {
		t.Errorf("ended with %v", s.last[1].err)
	}
}

// A worker that says why it cannot serve has no better cause of its death.
func TestCrashOfFailure(t *testing.T) {
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 9})
	s.start()
	s.exit(0, 1)
	s.sleep(time.Minute)
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 7})
	s.feed(event{kind: evFatal, worker: key{0, 2}, failure: &BootError{Class: "config", Text: "no key"}})
	s.exit(0, 2)
	if got := s.fleet.status().Slots[0].Crash; got != "cannot serve: config: no key" {
		t.Errorf("the slot's crash is %q", got)
	}
}

func TestThreshold(t *testing.T) {
	table := []struct {
		name      string
		threshold int
		window    time.Duration
		pause     time.Duration // between crashes
		crashes   int
		over      bool
	}{
		{"zero bears none", 0, 0, 0, 1, true},
		{"as many as allowed", 3, 0, 0, 3, false},
		{"one more", 3, 0, 0, 4, true},
		{"lifetime", 3, 0, time.Hour, 4, true},
		{"window forgets", 3, time.Minute, 21 * time.Second, 30, false},
		{"window keeps", 3, time.Minute, 19 * time.Second, 4, true},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, Config{Workers: 2, RecoverThreshold: c.threshold, RecoverWindow: c.window})
			s.start()
			for i := range c.crashes {
				if s.fleet.mode != modeRunning {
					t.Fatalf("over after %d crashes", i)
				}
				s.exit(0, 1+i)
				if s.fleet.mode == modeRunning {
					s.boot(0, 2+i)
				}
				s.now = s.now.Add(c.pause)
			}
			if over := s.fleet.mode == modeStopping; over != c.over {
				t.Fatalf("over: %v", over)
			}
			if !c.over {
				return
			}
			if !strings.Contains(strings.Join(s.log, "\n"), "too many workers died: stopping") {
				t.Errorf("the log does not say why: %q", s.log)
			}
			s.exit(1, 1)
			s.want(actFinish)
			if s.last[0].err != ErrOverRecovery {
				t.Errorf("ended with %v", s.last[0].err)
			}
		})
	}
}

// The pause doubles with deaths before READY, and only with those.
func TestBackoff(t *testing.T) {
	const interval = 100 * time.Millisecond
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 100, RecoverInterval: interval})
	s.start()
	generation := 1
	die := func(nominal time.Duration) {
		t.Helper()
		s.exit(0, generation)
		generation++
		if nominal > 0 {
			s.want()
			wait := s.fleet.next().Sub(s.now)
			if wait < nominal*8/10 || wait > nominal*12/10 {
				t.Fatalf("generation %d: pause %v, want %v ± 20 %%", generation, wait, nominal)
			}
			s.sleep(wait - 1)
			s.want()
			s.sleep(1)
		}
		s.want(actSpawn)
	}
	s.now = s.now.Add(10 * time.Second)
	die(0) // a worker that had served long
	for range 5 {
		s.boot(0, generation)
		die(interval) // it had served
	}
	for i := range 20 {
		s.feed(event{kind: evSpawned, worker: key{0, generation}, pid: 9})
		s.now = s.now.Add(time.Minute / 4) // it boots slowly
		die(min(interval<<i, 30*time.Second))
	}
	s.boot(0, generation)
	die(interval) // it had served, so the series of failed boots ends
	s.feed(event{kind: evSpawned, worker: key{0, generation}, pid: 9})
	die(interval)
	s.boot(0, generation)
	s.now = s.now.Add(10 * time.Second)
	die(0)
}

// The only worker that serves is replaced at once, and within about a second beyond the
// threshold, however often it dies.
func TestLastOneHardlyWaits(t *testing.T) {
	const allowed = 5
	s := newScript(t, Config{Workers: 2, RecoverThreshold: allowed, RecoverInterval: time.Hour, OverRecovery: OverRecoveryDegrade})
	s.start()
	s.exit(0, 1)
	s.want() // the other worker serves
	for generation := 1; generation < 20; generation++ {
		s.exit(1, generation)
		if generation >= allowed {
			s.want()
			s.sleep(lastBackoff * 12 / 10)
		}
		s.want(actSpawn)
		if s.last[0].worker != (key{1, generation + 1}) {
			t.Fatalf("started: %v", s.last[0].worker)
		}
		s.boot(1, generation+1)
	}
	s.exit(1, 20)
	s.feed(event{kind: evSpawned, worker: key{1, 21}, pid: 9})
	s.exit(1, 21)
	s.want() // it was never ready: a pause
}

func TestNoInterval(t *testing.T) {
	s := newScript(t, Config{Workers: 1, RecoverThreshold: 100})
	s.start()
	for i := range 50 {
		s.exit(0, 1+i)
		s.want(actSpawn)
		s.boot(0, 2+i)
	}
}

// A worker that dies before the fleet was ready also leaves a queue.
func TestRescueDuringTheStart(t *testing.T) {
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 9, Sockets: noSockets})
	s.feed(event{kind: evStart})
	s.boot(0, 1)
	s.feed(event{kind: evSpawned, worker: key{1, 1}, pid: 9})
	s.exit(1, 1)
	s.want(actSpawn, actAdopt)
	if a := s.last[1]; a.worker != (key{0, 1}) || a.slot != 1 {
		t.Fatalf("adopted: %+v", a)
	}
	s.boot(1, 2)
	s.want(actAllReady, actRelease)
}

func TestRescue(t *testing.T) {
	s := newScript(t, Config{Workers: 3, RecoverThreshold: 9, Sockets: noSockets})
	s.start()
	s.exit(1, 1)
	s.want(actSpawn, actAdopt)
	if a := s.last[1]; a.worker != (key{0, 1}) || a.slot != 1 {
		t.Fatalf("adopted: %+v", a)
	}
	s.exit(0, 1) // the adopter dies, too
	s.want(actSpawn, actAdopt, actAdopt)
	if s.last[1].worker != (key{2, 1}) || s.last[2].worker != (key{2, 1}) {
		t.Fatalf("adopted: %+v", s.last)
	}
	s.boot(1, 2)
	s.want(actRelease)
	s.boot(0, 2)
	s.want(actRelease)

	s = newScript(t, Config{Workers: 3, RecoverThreshold: 9, Sockets: noSockets, SharedSockets: true})
	s.start()
	s.exit(1, 1)
	s.want(actSpawn)
}

func TestRollingRestart(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, DrainTimeout: 3 * time.Second})
	s.start()
	s.feed(event{kind: evRestart})
	s.want(actSpawn)
	for slot := range 2 {
		s.boot(slot, 2)
		if slot == 0 { // the next slot does not wait until the drain of this one has ended
			s.want(actSpawn, actDrain)
		} else {
			s.want(actDrain)
		}
		if a := s.last[len(s.last)-1]; a.worker != (key{slot, 1}) || !a.hasSuccessor || a.grace != 3*time.Second {
			t.Fatalf("drain: %+v", a)
		}
	}
	if s.fleet.rolling != rollingNone || s.fleet.restarts != 1 || s.fleet.crashesTotal != 0 {
		t.Errorf("rolling %v, restarts %d, crashes %d", s.fleet.rolling, s.fleet.restarts, s.fleet.crashesTotal)
	}
}

func TestRollingRestartOfStuckWorker(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, DrainTimeout: 3 * time.Second})
	s.start()
	s.feed(event{kind: evRestart})
	s.boot(0, 2)
	if wait := s.fleet.next().Sub(s.now); wait != 3400*time.Millisecond {
		t.Fatalf("waits %v", wait)
	}
	s.sleep(3400 * time.Millisecond)
	s.want(actKill)
	s.sleep(time.Hour)
	s.want() // only once
	s.exit(0, 1)
	if s.fleet.restarts != 1 {
		t.Error("not done")
	}
}

func TestRollingRestartFails(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets})
	s.start()
	s.feed(event{kind: evRestart})
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.sleep(30 * time.Second)
	s.want(actKill) // not ready in time
	s.exit(0, 2)
	s.want()
	if st := s.fleet.status(); st.Rolling || !st.Ready || st.Crashes != 0 || st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
	s.sleep(time.Hour)
	s.want()
}

func TestCrashDuringRollingRestart(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, RecoverThreshold: 9})
	s.start()
	s.feed(event{kind: evRestart})
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.exit(0, 1) // the predecessor dies: the successor takes its place
	s.want(actRecover, actSpawn, actAdopt)
	s.feed(event{kind: evReady, worker: key{0, 2}})
	s.want(actRelease)
	s.boot(1, 2)
	s.want(actDrain)
}

func TestRecycle(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets})
	s.start()
	s.feed(event{kind: evRecycle, worker: key{1, 1}, text: "SIGTERM"})
	s.want(actSpawn)
	s.boot(1, 2)
	s.want(actDrain)
	s.exit(1, 1)
	s.want()
	if s.fleet.crashesTotal != 0 {
		t.Error("counted as a crash")
	}
	s.feed(event{kind: evRecycle, worker: key{1, 2}, text: "SIGTERM"})
	s.feed(event{kind: evSpawned, worker: key{1, 3}, pid: 9})
	s.exit(1, 2) // it does not wait for its successor
	for _, a := range s.last {
		if a.kind == actRecover {
			t.Error("the successor recovers what no death has left")
		}
	}
	if s.fleet.crashesTotal != 0 || s.fleet.slots[1].serving.key != (key{1, 3}) {
		t.Error("the successor did not take the place")
	}
}

func TestScale(t *testing.T) {
	s := newScript(t, Config{Workers: 2, MaxWorkers: 3, Sockets: noSockets})
	s.start()
	s.feed(event{kind: evScaleBy, number: 5})
	s.want(actSpawn)
	s.boot(2, 1)
	s.feed(event{kind: evScale, number: -4})
	s.want(actAdopt, actAdopt, actDrain, actDrain)
	for _, a := range s.last[2:] {
		if !a.hasSuccessor {
			t.Errorf("the sockets of slot %d are left alone", a.worker.slot)
		}
	}
	s.exit(1, 1)
	s.exit(2, 1)
	s.want()
	s.feed(event{kind: evScale, number: 2})
	s.want(actSpawn)
	s.boot(1, 2)
	s.want(actRelease)
}

// After a scale-down, workers' deaths change which worker serves the sockets of
// retired slots. When all workers are ready again, each serves its share.
func TestRetiredSocketsAreSpread(t *testing.T) {
	s := newScript(t, Config{Workers: 5, Sockets: noSockets, RecoverThreshold: 9})
	s.start()
	s.feed(event{kind: evScale, number: 2})
	for slot := 2; slot < 5; slot++ {
		s.exit(slot, 1)
	}
	adopters := func() (of [2]int) {
		for _, slot := range s.fleet.slots[2:] {
			of[slot.adopter.slot]++
		}
		return of
	}
	for generation := 1; generation < 4; generation++ {
		for victim := range 2 {
			s.exit(victim, generation)
			if of := adopters(); of[1-victim] != 3 {
				t.Fatalf("after a death: %v", of)
			}
			s.boot(victim, generation+1)
			s.want(actRelease, actRelease, actAdopt)
			s.said("from now on")
			if of := adopters(); s.fleet.slots[victim].adopter != nil || of[victim] != 1 {
				t.Fatalf("when worker %d is back: %v", victim, of)
			}
			s.feed(event{kind: evPong, worker: key{victim, generation + 1}})
			s.want() // nothing changes any more
		}
	}
	s.exit(0, 4)
	s.exit(1, 4)
	s.feed(event{kind: evSpawned, worker: key{0, 5}, pid: 9})
	s.feed(event{kind: evReady, worker: key{0, 5}})
	for _, a := range s.last {
		if a.kind == actRelease {
			t.Errorf("%+v while a worker is missing", a)
		}
	}
}

func TestScaleDownWhileBooting(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, RecoverThreshold: 9})
	s.start()
	s.feed(event{kind: evExited, worker: key{0, 1}, text: "killed"})
	s.want(actSpawn, actAdopt)
	s.feed(event{kind: evScale, number: 1})
	s.want()
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.feed(event{kind: evReady, worker: key{0, 2}})
	s.want(actAdopt, actDrain)
	if !s.last[len(s.last)-1].hasSuccessor {
		t.Error("it is told that it has no successor")
	}
}

func TestPause(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets})
	s.start()
	s.feed(event{kind: evPause})
	s.want(actDrain, actDrain)
	s.exit(0, 1)
	s.exit(1, 1)
	s.want()
	s.feed(event{kind: evRestart})
	s.want(actSpawn, actSpawn)
	s.feed(event{kind: evPause}) // while the forks run
	s.want()
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.want(actSpawned, actTerm)
	s.exit(0, 2)
	s.feed(event{kind: evSpawnFailed, worker: key{1, 2}, err: errors.New("no")})
	s.feed(event{kind: evStop})
	s.want(actStopping, actCloseSockets, actFinish)
}

func TestStops(t *testing.T) {
	s := newScript(t, Config{Workers: 1, GracePeriod: 10 * time.Second})
	s.start()
	s.feed(event{kind: evStop})
	s.want(actStopping, actDrain)
	s.feed(event{kind: evStop})
	s.want()
	if !s.logs("stopping at once: workers have 1s") {
		t.Errorf("log: %q", s.log)
	}
	if wait := s.fleet.next().Sub(s.now); wait != time.Second {
		t.Errorf("a second stop leaves %v", wait)
	}
	s.sleep(time.Second)
	s.want(actKill)
	s.exit(0, 1)
	s.want(actFinish)
	if s.last[0].err != nil {
		t.Error(s.last[0].err)
	}

	s = newScript(t, Config{Workers: 3})
	s.start()
	s.feed(event{kind: evQuit})
	s.want(actStopping, actDumpSelf, actDump)
	s.exit(0, 1)
	s.want(actDump) // one after the other
	s.sleep(2*time.Second - 1)
	s.want()
	s.sleep(1)
	s.want(actKill, actKill) // all at once
	s.exit(1, 1)
	s.exit(2, 1)
	s.want(actFinish)
	if s.last[0].err != ErrQuit {
		t.Error(s.last[0].err)
	}

	s = newScript(t, Config{Workers: 1})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evKill}) // while it is forked
	s.want(actStopping)
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 9})
	s.want(actSpawned, actKill)
}

func TestForkFailsLater(t *testing.T) {
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 1, Sockets: noSockets})
	s.start()
	s.exit(0, 1)
	for i := range 5 {
		s.feed(event{kind: evSpawnFailed, worker: key{0, 2 + i}, err: errors.New("EAGAIN")})
		s.want()
		s.sleep(s.fleet.next().Sub(s.now))
		s.want(actSpawn)
	}
	s.feed(event{kind: evSpawned, worker: key{0, 7}, pid: 9})
	s.want(actSpawned, actRecover)
	if s.fleet.crashesTotal != 1 {
		t.Errorf("%d crashes", s.fleet.crashesTotal)
	}
}

// noStart is a Start function that is never called.
func noStart(Launch) (*exec.Cmd, error) { return nil, nil }

// A Start function's worker that has answered HELLO has BootTimeout to be ready.
func TestStartedWorkerThatAnswersHasBootTimeout(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Start: noStart, BootTimeout: time.Minute})
	s.feed(event{kind: evStart})
	s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 9})
	end := s.now.Add(time.Minute)
	s.feed(event{kind: evAttached, worker: key{0, 1}})
	s.sleep(helloPatience)
	s.want()
	if next := s.fleet.next(); !next.Equal(end) {
		t.Errorf("the next look at it is in %v, want %v", next.Sub(s.now), end.Sub(s.now))
	}
}

// A Start function's worker is ready when it reports READY. The old worker stays if
// the successor never does: it dies first, or it answers HELLO and nothing more, or
// it does not answer HELLO although other workers have.
func TestStartedWorkerIsReadyWhenItSaysSo(t *testing.T) {
	for _, c := range []struct {
		name string
		ends func(*script)
	}{
		{"it dies at once", func(s *script) { s.exit(0, 2) }},
		{"it dies later", func(s *script) { s.sleep(4 * time.Second); s.want(); s.exit(0, 2) }},
		{"it attaches and hangs", func(s *script) {
			s.feed(event{kind: evAttached, worker: key{0, 2}})
			s.sleep(time.Minute)
			s.want(actKill)
			s.exit(0, 2)
		}},
		{"it hangs", func(s *script) {
			s.sleep(2 * time.Second)
			s.want()
			s.sleep(time.Minute)
			s.want(actKill)
			s.exit(0, 2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, Config{Workers: 1, Sockets: noSockets, Start: noStart, BootTimeout: time.Minute})
			s.start()
			s.feed(event{kind: evRestart})
			s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
			s.want(actSpawned)
			c.ends(s)
			s.want()
			if w := s.fleet.slots[0].serving; w == nil || w.key != (key{0, 1}) || w.phase != PhaseReady || s.fleet.rolling != rollingNone {
				t.Errorf("the old worker: %+v, rolling %v", w, s.fleet.rolling)
			}
		})
	}
}

// If no worker has ever answered HELLO, a worker that lives for a while counts as
// ready, both at the start and in a rolling restart.
func TestStartedWorkerThatCannotSpeak(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, Start: noStart})
	boot := func(generation int) {
		s.feed(event{kind: evSpawned, worker: key{0, generation}, pid: 8 + generation})
		if wait := s.fleet.next().Sub(s.now); wait != 2*time.Second {
			t.Fatalf("waits for %v", wait)
		}
		s.sleep(2*time.Second - 1)
		s.want()
		s.sleep(1)
	}
	s.feed(event{kind: evStart})
	boot(1)
	s.want(actAllReady)
	s.feed(event{kind: evRestart})
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 10})
	s.exit(0, 2) // a broken worker
	s.want()
	s.feed(event{kind: evRestart})
	s.sleep(time.Second)
	boot(3)
	s.want(actTerm) // the first worker
	if s.last[0].worker != (key{0, 1}) || s.fleet.slots[0].serving.key != (key{0, 3}) {
		t.Errorf("%+v", s.last)
	}
}

// Draining predecessors are told when no worker takes over their connections any
// more, and when their time is shortened.
func TestPredecessorsAreToldThatNobodyFollows(t *testing.T) {
	for _, c := range []struct {
		name string
		ends func(*script)
	}{
		{"stop", func(s *script) { s.feed(event{kind: evStop}) }},
		{"pause", func(s *script) { s.feed(event{kind: evPause}) }},
		{"too many deaths", func(s *script) { s.exit(0, 2) }},
		{"scaled down, then stopped", func(s *script) {
			s.feed(event{kind: evScale, number: 1})
			s.feed(event{kind: evStop})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, Config{Workers: 2, Sockets: noSockets, Inboxes: true, DrainTimeout: time.Minute, GracePeriod: 9 * time.Second})
			grace := 9 * time.Second
			if c.name == "pause" {
				grace = time.Minute
			}
			s.start()
			s.feed(event{kind: evRestart})
			s.boot(0, 2)
			s.want(actSpawn, actDrain)
			s.boot(1, 2)
			s.want(actDrain)
			c.ends(s)
			told := false
			for _, a := range s.last {
				if a.kind == actDrain && a.worker == (key{0, 1}) {
					told = true
					if a.hasSuccessor || a.grace != grace {
						t.Errorf("told %+v", a)
					}
				}
			}
			if !told {
				t.Errorf("not told; actions %+v", s.last)
			}
		})
	}
}

// The worker that dies last leaves a queue and an inbox: a worker of another slot
// adopts them before it ends.
func TestOverRecoveryLeavesNothingBehind(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets})
	s.start()
	s.exit(0, 1)
	s.want(actAdopt, actStopping, actDrain, actCloseSockets)
	if a := s.last[0]; a.worker != (key{1, 1}) || a.slot != 0 {
		t.Errorf("adopted: %+v", a)
	}
	if a := s.last[2]; a.hasSuccessor {
		t.Errorf("drain: %+v", a)
	}
}

// A fleet that was never ready ends with an error, whatever commands follow. Deaths
// before and after that are distinguished.
func TestNeverReadyEnds(t *testing.T) {
	for _, name := range []string{"never", "once"} {
		s := newScript(t, Config{Workers: 2, RecoverThreshold: 1, OverRecovery: OverRecoveryDegrade})
		s.feed(event{kind: evStart})
		s.boot(0, 1)
		if name == "once" {
			s.boot(1, 1)
		} else {
			s.feed(event{kind: evSpawned, worker: key{1, 1}, pid: 9})
		}
		for generation := 1; generation <= 2; generation++ {
			s.exit(1, generation)
			s.feed(event{kind: evSpawned, worker: key{1, generation + 1}, pid: 9})
		}
		if name == "once" {
			if !s.fleet.degraded || s.fleet.mode != modeRunning {
				t.Errorf("%s: degraded %v, mode %v", name, s.fleet.degraded, s.fleet.mode)
			}
			continue
		}
		s.exit(0, 1)
		if s.fleet.mode != modeFinished || s.fleet.result != ErrOverRecovery {
			t.Errorf("%s: mode %v, %v", name, s.fleet.mode, s.fleet.result)
		}
	}
}

// All workers with a control channel that were not killed reopen log files, after the
// master has.
func TestReopenIsForAll(t *testing.T) {
	s := newScript(t, Config{Workers: 3})
	s.feed(event{kind: evStart})
	s.boot(0, 1)
	s.feed(event{kind: evSpawned, worker: key{1, 1}, pid: 7}) // has sent no message yet
	s.boot(2, 1)
	s.feed(event{kind: evReopen})
	s.want(actReopened, actReopen, actReopen)
	if s.last[1].worker != (key{0, 1}) || s.last[2].worker != (key{2, 1}) {
		t.Errorf("%+v", s.last)
	}
}
