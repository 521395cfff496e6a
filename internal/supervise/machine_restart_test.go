package supervise

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Restarts that are asked for while one is under way wait for its end, and are one
// then: no slot is replaced again before all others were.
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
		t.Fatalf("nobody is replaced; generations %v", generations)
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
	for s.fleet.rolling {
		replace()
	}
	// Restarts are asked for in each pass, so each is followed by another one.
	if want := (generations[0] - 1); s.fleet.restarts != want || want != 11 || generations != [3]int{12, 12, 12} {
		t.Errorf("%d restarts, generations %v", s.fleet.restarts, generations)
	}
	s.want()
}

// One that fails is followed, too, by the one that was asked for meanwhile.
func TestRestartAfterOneThatFails(t *testing.T) {
	s := newScript(t, Config{Workers: 1, Sockets: noSockets, RecoverInterval: time.Minute})
	s.start()
	s.feed(event{kind: evRestart})
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 9})
	s.feed(event{kind: evRestart})
	s.want()
	s.exit(0, 2)
	s.want(actSpawn) // at once: somebody wants it
	s.boot(0, 3)
	s.exit(0, 1)
	if st := s.fleet.status(); st.Rolling || st.Restarts != 1 {
		t.Errorf("%+v", st)
	}
}

// A worker that asks to be replaced again and again does not keep others from it.
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

// A restart waits for a successor that boots, and for predecessors that drain only
// when there are as many of them as workers.
func TestDrainsAreBounded(t *testing.T) {
	const workers = 4
	s := newScript(t, Config{Workers: workers, MaxWorkers: workers, Sockets: noSockets, DrainTimeout: time.Hour})
	s.start()
	s.feed(event{kind: evRestart})
	for slot := range workers {
		s.boot(slot, 2)
	}
	if s.fleet.rolling || s.fleet.restarts != 1 {
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

// Who waits for a restart is told how that one ended.
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
	restart(32) // they come back
	s.boot(0, 7)
	s.answered(nil, 32)
	s.feed(event{kind: evStop})
	restart(33)
	s.answered(ErrStopping, 33)
}

// answered checks who was told of the end of a restart by the last event, and what.
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
	s.t.Errorf("nobody is answered, want %v: %v", tickets, want)
}

// Who waits is told why a successor was not ready, and so is the status.
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

// A worker gets what the restart under way brings, and if that fails, what the last
// one brought that did not.
func TestConfigurations(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, RecoverThreshold: 99, Configuration: []byte("first")})
	spawned := func(want string) {
		t.Helper()
		for _, a := range s.last {
			if a.kind == actSpawn && string(a.configuration) == want {
				return
			}
		}
		t.Errorf("want a worker with %q: %+v", want, s.last)
	}
	restart := func(with string) { s.feed(event{kind: evRestart, configuration: []byte(with)}) }
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
	restart("third") // it follows
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
	if s.fleet.rolling {
		t.Fatal("it goes on")
	}
	s.exit(1-k.slot, s.fleet.slots[1-k.slot].serving.generation)
	spawned("second")
}
