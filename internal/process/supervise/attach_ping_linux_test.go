package supervise

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// PINGs are answered when OnPing returns nil, one at a time. One answer is for all
// PINGs that came meanwhile.
func TestAnswersToPings(t *testing.T) {
	ours, theirs := linkPair(t)
	var inside, clashes atomic.Int32
	asked, verdicts := make(chan struct{}), make(chan error)
	w := &Worker{options: AttachOptions{Logger: noLogger{}, OnPing: func() error {
		if inside.Add(1) > 1 {
			clashes.Add(1)
		}
		defer inside.Add(-1)
		asked <- struct{}{}
		return <-verdicts
	}}}
	w.link, w.pings = theirs, newProbes()
	go w.answer()
	answers := make(chan uint32, 8)
	go func() {
		for {
			m, _, err := ours.receive()
			if err != nil {
				return
			}
			if m.kind == messagePong {
				answers <- m.seq
			}
		}
	}()
	answer := func(verdict error) {
		t.Helper()
		select {
		case verdicts <- verdict:
		case <-time.After(patience):
			t.Fatal("no PING is answered")
		}
	}
	want := func(seq uint32) {
		t.Helper()
		select {
		case got := <-answers:
			if got != seq {
				t.Fatalf("answer to %d, want %d", got, seq)
			}
		case <-time.After(patience):
			t.Fatalf("no answer to %d", seq)
		}
	}
	w.pings.note(1)
	<-asked
	for seq := uint32(2); seq < 9; seq++ {
		w.pings.note(seq)
	}
	answer(nil)
	want(1)
	<-asked
	answer(errors.New("a loop stands still"))
	w.pings.note(9)
	<-asked
	answer(nil)
	want(9)
	if clashes.Load() > 0 || len(answers) > 0 {
		t.Errorf("%d clashes, %d more answers", clashes.Load(), len(answers))
	}
}

// A series of unanswered probes is logged once.
func TestRefusedProbesAreSaidOnce(t *testing.T) {
	w, master := deafWorker(t)
	log, bad := &logLines{}, errors.New("stands still")
	verdicts := make(chan error)
	w.options.Logger, w.options.OnPing = log, func() error { return <-verdicts }
	go w.answer()
	for seq, verdict := range []error{bad, bad, nil, bad, nil} {
		w.pings.note(uint32(seq))
		verdicts <- verdict
		if verdict == nil {
			heard(t, master, messagePong)
		}
	}
	if len(log.lines) != 2 {
		t.Errorf("logged %q", log.lines)
	}
}
