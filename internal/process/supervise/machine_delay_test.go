package supervise

import (
	"testing"
	"time"
)

// After an order to stop, workers go on for StopDelay: dead ones are replaced, and the
// status says what is to come.
func TestStopDelay(t *testing.T) {
	s := newScript(t, Config{Workers: 2, MaxWorkers: 2, Sockets: noSockets, StopDelay: 5 * time.Second, RecoverThreshold: 9})
	s.start()
	if st := s.fleet.status(); st.Stopping || !st.Started {
		t.Errorf("%+v", st)
	}
	s.feed(event{kind: evStop})
	s.want(actStopping)
	s.said("stopping in 5s")
	if st := s.fleet.status(); !st.Stopping || !st.Ready {
		t.Errorf("%+v", st)
	}
	if next, want := s.fleet.next(), s.now.Add(5*time.Second); next != want {
		t.Errorf("next at %v, want %v", next, want)
	}
	s.feed(event{kind: evRestart, number: 3})
	s.want(actRestarted)
	s.answered(ErrStopping, 3)
	s.exit(0, 1)
	s.boot(0, 2)
	s.sleep(5*time.Second - 1)
	s.want()
	s.sleep(1)
	s.want(actDrain, actDrain, actCloseSockets)
	s.exit(0, 2)
	s.exit(1, 1)
	s.want(actFinish)
	if err := s.last[0].err; err != nil {
		t.Error(err)
	}
}

// A second order, and other ends, do not wait. A fleet that is paused has no worker to
// wait for.
func TestStopDelayEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []event
		want   []actionKind // of the last event
	}{
		{"a second order", []event{{kind: evStop}, {kind: evStop}}, []actionKind{actDrain, actCloseSockets}},
		{"kill", []event{{kind: evStop}, {kind: evKill}}, []actionKind{actKill, actCloseSockets}},
		{"quit", []event{{kind: evStop}, {kind: evQuit}}, []actionKind{actDumpSelf, actDump, actCloseSockets}},
		{"too many deaths", []event{{kind: evStop}, {kind: evExited, worker: key{0, 1}}}, []actionKind{actCloseSockets, actFinish}},
		{"paused", []event{{kind: evPause}, {kind: evStop}}, []actionKind{actStopping, actDrain, actCloseSockets}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, Config{Workers: 1, Sockets: noSockets, StopDelay: time.Minute})
			s.start()
			for _, e := range c.events {
				s.feed(e)
			}
			s.want(c.want...)
		})
	}
}
