package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// hangTimeout is long enough for healthy workers with the race detector on a busy
// machine.
const hangTimeout = 4 * time.Second

// withHangs turns on hang detection.
func withHangs(c *Config) { c.HangTimeout = hangTimeout }

// replaced waits until only a slot's second worker serves it.
func (f *testFleet) replaced(slot int) {
	f.t.Helper()
	until(f.t, "the worker is replaced", func() bool {
		s := f.Status().Slots[slot]
		return len(s.Workers) == 1 && s.Workers[0].Generation == 2 && s.Workers[0].Phase == PhaseReady
	})
}

// I9: a worker that stands still is replaced at once and killed later. The others are
// not affected.
func TestStoppedWorkerIsReplaced(t *testing.T) {
	t.Parallel() // it mostly waits
	f := startFleet(t, withHangs).ready()
	w, other := f.serving(0), f.serving(1)
	nettest.Freeze(t, w.PID)
	until(t, "a successor serves beside it", func() bool {
		s := f.Status().Slots[0]
		return len(s.Workers) == 2 && s.Workers[0].Generation == 2 && s.Workers[0].Phase == PhaseReady &&
			s.Workers[1].Phase == PhaseHung
	})
	f.replaced(0)
	if !isGone(w.PID) {
		t.Error("the worker lives")
	}
	if st := f.Status(); st.Slots[0].Hangs != 1 || st.Slots[0].Crashes != 1 || st.Crashes != 1 || st.Slots[0].Restarts != 1 || st.Slots[1].Hangs != 0 {
		t.Errorf("%+v", st)
	}
	for _, text := range []string{fmt.Sprintf("worker 0.1 (pid %d): hangs: no answer to a PING for ", w.PID), "still runs 2s after SIGQUIT: killed"} {
		if !f.log.has(text) {
			t.Errorf("the log does not say: %s", text)
		}
	}
	if f.serving(1) != other {
		t.Errorf("%+v", f.serving(1))
	}
}

// Connections in the queue of a hanging worker are served by another slot's worker
// while there is no successor.
func TestQueueOfHungWorkerIsServed(t *testing.T) {
	t.Parallel() // it mostly waits
	unblock := make(chan struct{})
	var mu sync.Mutex
	started := 0
	f := startFleet(t, func(c *Config) {
		withHangs(c)
		c.Affinity = func(int) []int {
			mu.Lock()
			started++
			isLate := started > 2
			mu.Unlock()
			if isLate {
				<-unblock
			}
			return nil
		}
	}).ready()
	defer close(unblock)
	c := f.dial(1)
	nettest.Freeze(t, f.serving(0).PID)
	fmt.Fprintln(c, "pass 0")
	stop := f.load(8, "who")
	if got := c.hear(); got != "passed by 1.1" {
		t.Errorf("%q", got)
	}
	if got := c.server(); got != "1.1" {
		t.Errorf("served by %s", got)
	}
	if _, failures := stop(); len(failures) > 0 {
		t.Error(failures)
	}
}

// A worker that answers PINGs and accepts nothing is found by its queue.
func TestWorkerThatAcceptsNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	f := startFleet(t, func(c *Config) {
		withHangs(c)
		records := c.SharedFiles[0]
		c.Progress = func(slot, _ int) (number uint64, ok bool) {
			for generation := range 20 {
				var record [8]byte
				records.ReadAt(record[:], recordOffset(key{slot, generation}))
				number += binary.LittleEndian.Uint64(record[:])
			}
			return number, true
		}
	}).ready()
	c := f.dial(0)
	c.say("idle")
	// An accept that is under way takes one more.
	var conns []net.Conn
	until(t, "connections wait", func() bool {
		conn, err := net.Dial("tcp4", f.sockets.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintln(conn, "who")
		conns = append(conns, conn)
		return f.Status().Slots[0].Queue > 1
	})
	f.replaced(0)
	if !f.log.has("connections wait and none was accepted for ") || f.log.has("no answer") {
		t.Error("that is not what the log says")
	}
	for _, conn := range conns[1:] {
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("no answer: %v", err)
		}
	}
}

// A worker whose probe fails prints its stacks.
func TestHungWorkerPrintsItsStacks(t *testing.T) {
	t.Parallel() // it mostly waits
	m := startMaster(t, masterSpec{Workers: 2, Role: "echo", GraceMS: 5000, Threshold: 9, HangMS: int(hangTimeout / time.Millisecond)})
	if answer, err := ask(m.address(), "hang"); err != nil || answer != "hanging" {
		t.Fatalf("%q, %v", answer, err)
	}
	m.says("the master's probe is not answered: stuck")
	m.says("hangs: no answer to a PING")
	m.says("SIGQUIT: quit")
	m.says("supervise.hangForEver")
	m.says("exit status 2")
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// I9: when all processes stood still, none is killed.
func TestSuspendedFleetIsLeftAlone(t *testing.T) {
	t.Parallel() // it mostly waits
	m := startMaster(t, masterSpec{Workers: 2, Role: "echo", GraceMS: 5000, Threshold: 9, HangMS: int(hangTimeout / time.Millisecond)})
	m.address()
	pids := append(m.workers(), m.command.Process.Pid)
	// The master first, so that it does not see the others stand still.
	slices.Reverse(pids)
	// A pause before the master has looked at its workers for the first time is none for it.
	until(t, "the master notices a pause", func() bool {
		for _, pid := range pids {
			nettest.Freeze(t, pid)
		}
		time.Sleep(hangTimeout + hangTimeout/4)     // longer than the timeout: the subject of this test
		for _, pid := range slices.Backward(pids) { // the master last: it must not find workers that are still stopped
			nettest.Signal(t, pid, syscall.SIGCONT)
		}
		for end := time.Now().Add(hangTimeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if strings.Contains(m.text(), "the master stood still for ") {
				return true
			}
		}
		return false
	})
	time.Sleep(hangTimeout + hangTimeout/4) // long enough to find a hang
	if strings.Contains(m.text(), "hangs") || len(m.workers()) != 2 {
		t.Error("a worker was taken for hanging")
	}
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// OnReaped is called for each process that has ended, before the next one of its slot
// starts.
func TestOnReaped(t *testing.T) {
	var mu sync.Mutex
	var history []string
	note := func(what string, slot, pid int) {
		mu.Lock()
		defer mu.Unlock()
		history = append(history, fmt.Sprintf("%s %d %d", what, slot, pid))
	}
	f := startFleet(t, func(c *Config) {
		c.RecoverInterval = 0
		c.Affinity = func(slot int) []int { // called right before a start
			note("start", slot, 0)
			return nil
		}
		c.OnReaped = func(slot, pid int) {
			if !isGone(pid) || fileExists(fmt.Sprintf("/proc/%d/stat", pid)) {
				note("alive", slot, pid)
			}
			note("reaped", slot, pid)
		}
	}).ready()
	pids := []int{f.serving(0).PID, f.serving(1).PID}
	nettest.Signal(t, pids[0], syscall.SIGKILL)
	f.replaced(0)
	pids = append(pids, f.serving(0).PID)
	f.Stop()
	if err := f.end(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"start 0 0", "start 1 0", fmt.Sprintf("reaped 0 %d", pids[0]), "start 0 0"}
	if len(history) != 6 || !slices.Equal(history[:4], want) {
		t.Errorf("%q", history)
	}
	for i, slot := range []int{0, 1, 0} {
		if !slices.Contains(history, fmt.Sprintf("reaped %d %d", slot, pids[i])) {
			t.Errorf("process %d is missing in %q", pids[i], history)
		}
	}
}

// fileExists reports whether there is such a file.
func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// The port is free as soon as no worker accepts any more, not when the last worker
// has ended.
func TestStopFreesThePort(t *testing.T) {
	t.Parallel() // it mostly waits
	f := startFleet(t, nil).ready()
	c := f.dial(0)
	if got := c.say("sleep 6s"); got != "sleeping" {
		t.Fatalf("%q", got)
	}
	f.Stop()
	until(t, "connections are refused", func() bool {
		conn, err := net.Dial("tcp4", f.sockets.address())
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if st := f.serving(0); st.Phase != PhaseDraining {
		t.Errorf("the worker that is busy: %+v", st)
	}
	if got := c.hear(); got != "slept" {
		t.Errorf("%q", got)
	}
	c.Close()
	if err := f.end(); err != nil {
		t.Error(err)
	}
}

// A fleet with all features on leaves no descriptor open when it has ended.
func TestFleetLeavesNoDescriptors(t *testing.T) {
	startFleet(t, nil).ready().Kill() // opens the descriptors that stay for the process's life
	before := -1
	for range 3 {
		f := startFleet(t, func(c *Config) {
			withHangs(c)
			c.MaxWorkers = 4
		}).ready()
		f.Scale(4)
		until(t, "four workers", func() bool {
			st := f.Status()
			return st.Ready && st.Wanted == 4
		})
		nettest.Signal(t, f.serving(3).PID, syscall.SIGKILL)
		f.replaced(3)
		if f.spawner.find(key{3, 1}) != nil {
			t.Error("the process that has ended is still known")
		}
		f.Stop()
		if err := f.end(); err != nil {
			t.Fatal(err)
		}
		until(t, "no process is left", func() bool { return len(deadChildren()) == 0 })
		f.records.Close()
		if before >= 0 {
			until(t, "its descriptors are closed", func() bool { return descriptors(t, os.Getpid()) <= before })
		}
		before = descriptors(t, os.Getpid())
	}
}
