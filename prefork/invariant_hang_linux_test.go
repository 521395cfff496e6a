package prefork

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// hangTimeout is longer than a busy machine delays a process.
const hangTimeout = 4 * time.Second

// A worker that hangs in any way is replaced. The others continue to serve, and also
// serve its waiting connections. If possible, it logs where it hangs (I9).
func TestHungWorkerIsReplaced(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, c := range map[string]struct {
		engine sluice.Engine
		hang   func(f *fleet, gate string) (victim int)
		says   string // in the log
	}{
		"stopped epoll":   {sluice.EngineEpoll, hangStopped, "no answer to a PING"},
		"stopped perconn": {sluice.EnginePerConn, hangStopped, "no answer to a PING"},
		"wedged epoll":    {sluice.EngineEpoll, hangWedged, "goroutine "},
		"wedged perconn":  {sluice.EnginePerConn, hangWedged, "goroutine "},
		"accepts nothing": {sluice.EnginePerConn, hangAccept, "goroutine "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (name == "stopped perconn" || name == "wedged epoll") {
				t.Skip("the other engine is enough")
			}
			s := setup{Workers: 2, Engine: c.engine, Threshold: 9, Hang: hangTimeout}
			gate := filepath.Join(t.TempDir(), "gate")
			if name == "accepts nothing" {
				s.StuckAccept = gate
			}
			f := start(t, s, true)
			victim := c.hang(f, gate)
			// Another worker answers what waits for the victim. If it did not, these
			// requests would reach their deadline.
			var waiting []*client
			for range 40 {
				w := f.dial()
				w.send("GET /echo?n=1 HTTP/1.1\r\nHost: x\r\n\r\n")
				waiting = append(waiting, w)
			}
			var unanswered []error
			for _, w := range waiting {
				if err := w.expect("1:"); err != nil {
					unanswered = append(unanswered, err)
				}
			}
			// The victim may have accepted one more before it hung.
			if len(unanswered) > 1 {
				t.Errorf("%d of %d requests were not answered: %v", len(unanswered), len(waiting), errors.Join(unanswered...))
			}
			until(t, "it is replaced", func() bool { return f.count("ready after") == 3 })
			until(t, "it is gone", func() bool { return !isAlive(victim) })
			until(t, "the log says so", func() bool { return f.count("hangs: ") == 1 && f.count(c.says) > 0 })
			// The text may be in the middle of a line: stacks are not printed line by
			// line.
			until(t, "the hook is called", func() bool { return f.count("recover ") > 0 })
			if hangs, deaths := f.count("hangs: "), f.count("died: "); hangs != 1 || deaths != 0 {
				t.Errorf("%d hangs and %d deaths", hangs, deaths)
			}
			if _, err := f.get("/"); err != nil {
				t.Error(err)
			}
		})
	}
}

// hangStopped stops a worker's process.
func hangStopped(f *fleet, _ string) (victim int) {
	victim = f.pids()[0]
	nettest.Freeze(f.t, victim)
	return victim
}

// hangWedged has a handler occupy the worker's processor.
func hangWedged(f *fleet, gate string) (victim int) {
	f.dial().send("GET /wedge?file=" + gate + " HTTP/1.1\r\nHost: x\r\n\r\n")
	until(f.t, "the handler runs alone", func() bool {
		pid, err := os.ReadFile(gate)
		if err == nil && len(pid) == 4 {
			victim = int(binary.NativeEndian.Uint32(pid))
		}
		return victim != 0
	})
	return victim
}

// hangAccept makes the first worker accept nothing.
func hangAccept(f *fleet, gate string) (victim int) {
	open(f.t, gate)
	return f.pids()[0]
}

// If all processes stand still, as in a paused container, none counts as hanging
// (I9).
func TestPauseIsNoHang(t *testing.T) {
	t.Parallel() // it mostly waits
	f := start(t, setup{Workers: 2, Threshold: 9, Hang: hangTimeout}, true)
	all := append([]int{f.cmd.Process.Pid}, f.pids()...)
	// A pause before the master has looked at its workers for the first time is none for it.
	until(t, "the master notices a pause", func() bool {
		for _, pid := range all {
			nettest.Freeze(t, pid)
		}
		time.Sleep(hangTimeout + hangTimeout/4)
		for _, pid := range slices.Backward(all) { // the master last: it must not find workers that are still stopped
			nettest.Signal(t, pid, syscall.SIGCONT)
		}
		for end := time.Now().Add(hangTimeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if f.count("the master stood still") > 0 {
				return true
			}
		}
		return false
	})
	time.Sleep(hangTimeout + hangTimeout/2) // time for a hang to be found, which must not happen
	for range 20 {
		if _, err := f.get("/"); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.count("hangs: "); n != 0 || len(f.pids()) != 2 {
		t.Errorf("%d hangs, workers %v", n, f.pids())
	}
}

// A slow handler is no hang.
func TestSlowIsNoHang(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("it waits")
	}
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 1, Engine: engine, Threshold: 9, Hang: hangTimeout}, true)
			if body, err := f.get("/slow?ms=" + itoa(int(2*hangTimeout/time.Millisecond))); body != "slow" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
			if n := f.count("hangs: "); n != 0 || len(f.pids()) != 1 {
				t.Errorf("%d hangs, workers %v", n, f.pids())
			}
		})
	}
}
