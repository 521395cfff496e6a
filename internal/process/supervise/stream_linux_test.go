package supervise

import (
	"errors"
	"io"
	"os"
	"testing"
)

// A worker gets the streams that the master makes for it, and the master learns if there is
// no worker that could.
func TestStream(t *testing.T) {
	m := newMeeting()
	master := m.spawner.master
	master.spawner = m.spawner
	first, got := m.add(t), make(chan *os.File, 1)
	m.onStream = func(f *os.File) { got <- f }
	m.add(t)
	ours, err := master.Stream(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs := <-got
	if _, err := theirs.WriteString("hello"); err != nil || theirs.Close() != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(ours); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}

	unheard, err := master.Stream(0, 1) // it has no OnStream
	if err != nil {
		t.Fatal(err)
	}
	defer unheard.Close()
	until(t, "the worker closes it", func() bool {
		text, err := io.ReadAll(unheard) // which does not wait
		return err == nil && len(text) == 0
	})

	first.link.close()
	_, full := linkPair(t)
	for full.send(message{kind: messagePing}, nil) == nil {
	}
	m.replace(&process{key: key{3, 7}, link: full})
	before := descriptors(t, os.Getpid())
	for _, c := range []struct {
		slot, generation int
		want             error
	}{{0, 1, ErrNoWorker}, {1, 2, ErrNoWorker}, {9, 1, ErrNoWorker}, {3, 7, ErrSilent}} {
		if f, err := master.Stream(c.slot, c.generation); f != nil || !errors.Is(err, c.want) {
			t.Errorf("worker %d.%d: %v, %v", c.slot, c.generation, f, err)
		}
	}
	if n := descriptors(t, os.Getpid()); n > before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}
