package supervise

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Restarts that are requested while one is under way wait for its end and are merged
// into one. No slot is replaced again before all others were.
func TestRepeatedRestarts(t *testing.T) {
	s := newScript(t, Config{Workers: 3, MaxWorkers: 3, Sockets: noSockets})
	s.start()
	generations := [3]int{1, 1, 1}
	replace := func() {
		t.Helper()
		for slot, sl := range s.fleet.slots {
			if sl.successor != nil {
				generations[slot]++
				s.boot(slot, generations[slot])
				s.exit(slot, generations[slot]-1)
				return
			}
		}
		t.Fatalf("no worker is replaced; generations %v", generations)
	}
	s.feed(event{kind: evRestart})
	for i := range 30 {
		s.now = s.now.Add(2 * time.Second)
		for range i % 3 {
			s.feed(event{kind: evRestart})
		}
		replace()
		if spread := slices.Max(generations[:]) - slices.Min(generations[:]); spread > 1 {
			t.Fatalf("after %d: generations %v", i, generations)
		}
	}
	for s.fleet.rolling != rollingNone {
		replace()
	}
	// Restarts are requested during each pass, so each pass is followed by another.
	if want := (generations[0] - 1); s.fleet.restarts != want || want != 11 || generations != [3]int{12, 12, 12} {
		t.Errorf("%d restarts, generations %v", s.fleet.restarts, generations)
	}
	s.want()
}

// A restart that fails is also followed by one that was requested meanwhile.
func TestRestartAfterOneThatFails(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, RecoverInterval: time.Minute})
	s.start()
	s.feed(event{kind: evRestart})
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.feed(event{kind: evRestart})
	s.want()
	s.exit(0, 2)
	s.want(actSpawn) // at once, because it was requested
	s.boot(0, 3)
	s.exit(0, 1)
	if st := s.fleet.status(); st.Rolling || st.Restarts != 1 {
		t.Errorf("%+v", st)
	}
}

// A worker that asks for replacement again and again does not delay the others.
func TestRecyclingIsFair(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets})
	s.start()
	for generation := 1; generation < 4; generation++ {
		s.now = s.now.Add(time.Second)
		s.feed(event{kind: evRecycle, worker: key{0, generation}, text: "memory"})
		if generation == 1 {
			s.feed(event{kind: evRecycle, worker: key{1, 1}, text: "memory"})
		}
		s.boot(0, generation+1)
		s.exit(0, generation)
		if generation == 1 {
			s.feed(event{kind: evRecycle, worker: key{0, 2}, text: "memory"})
			s.want()
			s.boot(1, 2)
			s.exit(1, 1)
		}
	}
}

// A restart waits for a successor that boots. It waits for draining predecessors only
// when there are as many of them as workers.
func TestDrainsAreBounded(t *testing.T) {
	const workers = 4
	s := newScript(t, Config{Workers: workers, MaxWorkers: workers, Sockets: noSockets, DrainTimeout: time.Hour})
	s.start()
	s.feed(event{kind: evRestart})
	for slot := range workers {
		s.boot(slot, 2)
	}
	if s.fleet.rolling != rollingNone || s.fleet.restarts != 1 {
		t.Fatalf("restarts %d: it waits for those that drain", s.fleet.restarts)
	}
	s.feed(event{kind: evRestart})
	s.want()
	for slot := range workers {
		s.exit(slot, 1)
		s.want(actSpawn)
		s.boot(slot, 3)
		s.want(actDrain)
	}
}

// A caller that waits for a restart is told the result of that restart.
func TestRestartIsAnswered(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, BootTimeout: time.Minute})
	restart := func(ticket int) { s.feed(event{kind: evRestart, number: ticket}) }
	s.start()
	restart(1)
	restart(0)
	restart(2)
	restart(3)
	s.boot(0, 2)
	s.answered(nil, 1)
	s.exit(0, 1)
	s.boot(0, 3)
	s.answered(nil, 2, 3)
	s.exit(0, 2)

	no := errors.New("no such certificate")
	s.feed(event{kind: evRefused, number: 4, err: no})
	s.answered(no, 4)
	if st := s.fleet.status(); st.RestartsFailed != 1 || st.RestartError != no.Error() || st.Rolling {
		t.Errorf("%+v", st)
	}
	restart(20)
	s.feed(event{kind: evSpawnFailed, worker: key{0, 4}, err: no})
	s.answered(&RestartError{0, no}, 20)
	restart(21)
	s.boot(0, 5)
	s.answered(nil, 21)
	s.exit(0, 3)
	if st := s.fleet.status(); st.RestartsFailed != 2 || st.RestartError != "" || st.Restarts != 3 {
		t.Errorf("%+v", st)
	}
	restart(30)
	restart(31)
	s.feed(event{kind: evPause})
	s.answered(ErrStopping, 30, 31)
	restart(32) // workers start again
	s.boot(0, 7)
	s.answered(nil, 32)
	s.feed(event{kind: evStop})
	restart(33)
	s.answered(ErrStopping, 33)
}

// answered checks which tickets the last event answered, and with what.
func (s *script) answered(want error, tickets ...int) {
	s.t.Helper()
	for _, a := range s.last {
		if a.kind == actRestarted {
			if !slices.Equal(a.tickets, tickets) || fmt.Sprint(a.err) != fmt.Sprint(want) {
				s.t.Errorf("%v: %v; want %v: %v", a.tickets, a.err, tickets, want)
			}
			return
		}
	}
	s.t.Errorf("no ticket is answered, want %v: %v", tickets, want)
}

// Callers and the status are told why a successor was not ready.
func TestRestartTellsWhyItFailed(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, BootTimeout: time.Minute})
	s.start()
	generation := 1
	for i, c := range []struct {
		fails func(k key)
		why   string
	}{
		{func(k key) { s.feed(event{kind: evExited, worker: k, text: "exit status 7"}) }, "exit status 7"},
		{func(k key) {
			s.feed(event{kind: evFatal, worker: k, failure: &BootError{Class: "config", Text: "no key"}})
			s.feed(event{kind: evExited, worker: k, text: "exit status 1"})
		}, "sluice: worker 0 cannot start: config: no key"},
		{func(k key) {
			s.sleep(time.Minute)
			s.feed(event{kind: evExited, worker: k, text: "signal: killed"})
		}, "not ready after 1m0s"},
	} {
		generation++
		s.feed(event{kind: evRestart, number: 10 + i})
		k := key{0, generation}
		s.feed(event{kind: evSpawned, worker: k, pid: 9})
		c.fails(k)
		s.answered(errors.New("sluice: rolling restart failed in slot 0: "+c.why), 10+i)
		if st := s.fleet.status(); st.RestartsFailed != 1+i || !strings.HasSuffix(st.RestartError, c.why) || st.Restarts != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// A worker gets the configuration of the current restart. If that restart fails,
// workers get the configuration of the last one that succeeded.
func TestConfigurations(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, RecoverThreshold: 99, Configuration: []byte("first")})
	spawned := func(want string) {
		t.Helper()
		for _, a := range s.last {
			if a.kind == actSpawn && string(a.version.configuration) == want {
				return
			}
		}
		t.Errorf("want a worker with %q: %+v", want, s.last)
	}
	restart := func(with string) { s.feed(event{kind: evRestart, version: &version{configuration: []byte(with)}}) }
	s.feed(event{kind: evStart})
	spawned("first")
	s.boot(0, 1)
	s.boot(1, 1)
	s.feed(event{kind: evRefused, err: errors.New("no")})
	s.exit(0, 1)
	spawned("first")
	s.boot(0, 2)

	restart("second")
	spawned("second")
	restart("third") // another restart follows
	s.feed(event{kind: evSpawned, worker: key{1, 2}, pid: 9})
	s.exit(0, 2)
	spawned("second")
	s.boot(0, 3)
	s.feed(event{kind: evReady, worker: key{1, 2}})
	spawned("third")
	s.exit(1, 1)
	k := key{0, 4}
	if s.fleet.slots[0].successor == nil {
		k = key{1, 3}
	}
	s.feed(event{kind: evSpawned, worker: k, pid: 9})
	s.feed(event{kind: evExited, worker: k, text: "exit status 1"})
	if s.fleet.rolling != rollingNone {
		t.Fatal("it goes on")
	}
	s.exit(1-k.slot, s.fleet.slots[1-k.slot].serving.generation)
	spawned("second")
}

// Whatever ends a restart that is under way, those who wait for it and for the next one are
// told.
func TestEndOfRestart(t *testing.T) {
	for name, e := range map[string]event{
		"stop": {kind: evStop}, "kill": {kind: evKill}, "quit": {kind: evQuit}, "pause": {kind: evPause}, "failed hook": {kind: evFailed, err: errors.New("no")},
	} {
		s := newScript(t, Config{Workers: 2, Sockets: noSockets})
		s.start()
		s.feed(event{kind: evRestart, number: 1})
		s.feed(event{kind: evRestart, number: 2})
		s.feed(e)
		s.answered(ErrStopping, 1, 2)
		if f := s.fleet; f.rolling != rollingNone || f.waiting != nil || f.following != nil {
			t.Errorf("%s: rolling %v, tickets %v and %v", name, f.rolling, f.waiting, f.following)
		}
	}
}

// The pause before a new worker varies by a fifth, in both directions.
func TestVary(t *testing.T) {
	f := newFleet(Config{Workers: 1}, 1)
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := f.vary(10 * time.Second)
		least, most = min(least, d), max(most, d)
	}
	if least < 8*time.Second || least > 8100*time.Millisecond || most > 12*time.Second || most < 11900*time.Millisecond {
		t.Errorf("between %v and %v", least, most)
	}
}

// The pause doubles from one to the next, however often, up to half a minute. Without a
// base there is none.
func TestBackOffIsBounded(t *testing.T) {
	for base, want := range map[time.Duration][]time.Duration{
		0:               {0, 0, 0},
		4 * time.Second: {4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second},
		time.Minute:     {30 * time.Second},
		1:               {1, 2, 4},
	} {
		f := newFleet(Config{Workers: 1}, 1)
		s := f.slots[0]
		for i := range 70 {
			want := want[min(i, len(want)-1)]
			if base == 1 { // 2^35 is more than 30 s
				want = min(1<<min(i, 40), 30*time.Second)
				if i >= 32 {
					want = 30 * time.Second
				}
			}
			f.backOff(s, base)
			if got := s.respawnAt.Sub(f.now); got < want*8/10-1 || got > want*12/10+1 {
				t.Errorf("base %v, pause %d: %v, want %v", base, i, got, want)
			}
			if s.unready != i+1 {
				t.Errorf("%d deaths, counted %d", i+1, s.unready)
			}
		}
	}
}

// The status of a fleet in each of its parts.
func TestStatus(t *testing.T) {
	s := newScript(t, Config{Workers: 3, MaxWorkers: 3, Sockets: noSockets, RecoverThreshold: 9, RecoverInterval: time.Minute})
	began := s.now
	s.start()
	s.exit(1, 1)
	s.feed(event{kind: evScale, number: 2})
	s.feed(event{kind: evRestart})
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 7})
	respawn := s.fleet.slots[1].respawnAt
	worker := func(generation, version, pid int, phase Phase, isAttached bool) WorkerStatus {
		return WorkerStatus{Generation: generation, PID: pid, Phase: phase, Attached: isAttached, Started: began, Version: version}
	}
	want := &Status{Wanted: 2, MaxWorkers: 3, Rolling: true, Version: 2, GoodVersion: 1, Started: true, Crashes: 1, Slots: []SlotStatus{
		{Adopter: -1, Generation: 2, Restarts: 1, Version: 1, Since: began, Workers: []WorkerStatus{worker(1, 1, 101, PhaseReady, true), worker(2, 2, 7, PhaseSpawned, false)}},
		{Slot: 1, Adopter: 0, RespawnAt: respawn, Generation: 2, Crashes: 1, Crash: "died: exit status 1", Crashed: began, Version: 1, Since: began, Workers: []WorkerStatus{worker(2, 1, 0, PhaseSpawned, false)}},
		{Slot: 2, Retired: true, Adopter: 0, Generation: 1, Version: 1, Since: began, Workers: []WorkerStatus{worker(1, 1, 103, PhaseDraining, true)}},
	}}
	if got := s.fleet.status(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
