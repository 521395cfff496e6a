//go:build linux

package run

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
)

// TestKillOn: who is in a hurry does not wait for processes that do not listen, nor
// for one that is started later.
func TestKillOn(t *testing.T) {
	f, err := newFleet(func(control.Hello) control.Config { return control.Config{} })
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	hurry := make(chan struct{})
	defer f.killOn(hurry)()
	o := &Options{Program: "/bin/sh", ProcessArgs: []string{"-c", "sleep 1000 & sleep 1000"}}
	start := func() {
		if err := f.start(o, control.Client, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	start()
	close(hurry)
	waitEnded(t, f.started[0])
	start()
	waitEnded(t, f.started[1])
	if f.failure != nil {
		t.Errorf("it is taken for a failure: %v", f.failure)
	}
}

func waitEnded(t *testing.T, c *child) {
	t.Helper()
	select {
	case <-c.ended: // the one that it has started, too: it holds its standard error
	case <-time.After(endLimit - 5*time.Second):
		t.Fatal("a process goes on")
	}
}
