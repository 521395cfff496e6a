package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// talk is a connection to a fleet.
type talk struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

// dial connects until a worker of the slot serves the connection; -1: of any slot.
func (f *testFleet) dial(slot int) *talk {
	f.t.Helper()
	for range 1000 {
		conn, err := net.Dial("tcp4", f.sockets.address())
		if err != nil {
			f.t.Fatal(err)
		}
		c := &talk{f.t, conn, bufio.NewReader(conn)}
		c.SetDeadline(time.Now().Add(patience))
		if slot < 0 || strings.HasPrefix(c.say("who"), fmt.Sprintf("%d.", slot)) {
			f.t.Cleanup(func() { conn.Close() })
			return c
		}
		conn.Close()
	}
	f.t.Fatalf("no connection is served by slot %d", slot)
	return nil
}

// say sends a line and returns the answer.
func (c *talk) say(line string) string {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
	return c.hear()
}

// hear returns the next line.
func (c *talk) hear() string {
	c.t.Helper()
	answer, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// server returns the worker that serves the connection.
func (c *talk) server() string {
	c.t.Helper()
	name, _, _ := strings.Cut(c.say("who"), " ")
	return name
}

// A connection goes from worker to worker and stays open.
func TestConnectionsArePassed(t *testing.T) {
	f := startFleet(t, nil).ready()
	c := f.dial(0)
	for i := range 20 {
		from, to := i%2, 1-i%2
		if got, want := c.say(fmt.Sprintf("pass %d", to)), fmt.Sprintf("passed by %d.1", from); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		if got := c.server(); got != fmt.Sprintf("%d.1", to) {
			t.Fatalf("served by %s, want slot %d", got, to)
		}
	}
	if got := c.say("pass 7"); got != ErrNoInbox.Error() {
		t.Errorf("no such slot: %q", got)
	}
	if got := c.server(); got != "0.1" {
		t.Errorf("served by %s", got)
	}
	f.Stop()
	c.Close()
	if err := f.end(); err != nil {
		t.Error(err)
	}
}

// The parcels in the inbox of a killed worker are taken by the worker that adopts its
// slot, with shared and with separate sockets. After that the successor reads the
// inbox.
func TestInboxOfKilledWorker(t *testing.T) {
	for _, isShared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared sockets ", isShared), func(t *testing.T) {
			var isBlocked atomic.Bool
			unblock := make(chan struct{})
			f := startFleet(t, func(c *Config) {
				c.SharedSockets = isShared
				c.Affinity = func(int) []int {
					if isBlocked.Load() {
						<-unblock
					}
					return nil
				}
			}).ready()
			defer close(unblock)
			var conns []*talk
			other := f.dial(1)
			for range 50 {
				conns = append(conns, f.dial(1))
			}
			w := f.serving(0)
			isBlocked.Store(true)
			nettest.Freeze(t, w.PID)
			for _, c := range conns {
				fmt.Fprintln(c, "pass 0")
			}
			other.say("who") // by now most of them were posted
			nettest.Signal(t, w.PID, syscall.SIGKILL)
			for _, c := range conns {
				if got := c.hear(); got != "passed by 1.1" {
					t.Fatalf("%q", got)
				}
				if got := c.server(); got != "1.1" {
					t.Fatalf("served by %s", got)
				}
			}
			unblock <- struct{}{}
			isBlocked.Store(false)
			f.ready()
			until(t, "the successor reads its inbox", func() bool {
				c := f.dial(1)
				c.say("pass 0")
				return c.server() == "0.2"
			})
		})
	}
}

// If no worker can adopt it, an inbox waits for the successor.
func TestInboxWaitsForTheSuccessor(t *testing.T) {
	f := startFleet(t, func(c *Config) { c.Workers = 1 }).ready()
	c := f.dial(0)
	if got := c.say("strand 0"); got != "passed by 0.1" {
		t.Errorf("%q", got)
	}
	if got := c.server(); got != "0.2" {
		t.Errorf("served by %s", got)
	}
}

// Workers learn of slots that are added later, and can post to retired slots.
func TestInboxesOfOtherSizes(t *testing.T) {
	f := startFleet(t, func(c *Config) { c.Workers, c.MaxWorkers = 1, 3 }).ready()
	c := f.dial(0)
	if got := c.say("slots"); got != "1" {
		t.Errorf("%s slots", got)
	}
	size := func(n int) {
		t.Helper()
		f.Scale(n)
		until(t, fmt.Sprintf("%d workers", n), func() bool {
			st, alive := f.Status(), 0
			for _, s := range st.Slots {
				alive += len(s.Workers)
			}
			return st.Ready && alive == n
		})
	}
	size(3)
	for _, to := range []int{2, 1, 0, 1, 2, 0} {
		// A worker that is ready may still have to read what the master has told it.
		until(t, "the worker knows three slots", func() bool { return c.say("slots") == "3" })
		c.say(fmt.Sprintf("pass %d", to))
		if got := c.server(); got != fmt.Sprintf("%d.1", to) {
			t.Fatalf("served by %s, want slot %d", got, to)
		}
	}
	size(1)
	c.say("pass 2")
	if got := c.server(); got != "0.1" {
		t.Errorf("after the retirement served by %s", got)
	}
	size(3)
	until(t, "slot 2 has its inbox", func() bool {
		c.say("pass 2")
		return c.server() == "2.2"
	})
	if st := f.Status().Slots[2]; st.Restarts != 1 || st.Crashes != 0 {
		t.Errorf("%+v", st)
	}
}

// A Start function that passes on fewer files gives workers without inboxes.
func TestStartWithoutInboxes(t *testing.T) {
	f := startFleet(t, func(c *Config) {
		c.Env = nil
		c.Start = func(l Launch) (*exec.Cmd, error) {
			command := exec.Command("/proc/self/exe")
			command.Env = append(l.Env, roleVariable+"=echo")
			switch l.Slot {
			case 0: // one end belongs to another worker
				command.ExtraFiles = append(slices.Clone(l.Files[:5]), os.Stderr)
			case 1: // listener and control
				command.ExtraFiles = l.Files[:2]
			default: // only the inboxes are missing
				command.ExtraFiles = l.Files[:4]
			}
			return command, command.Start()
		}
	}).ready()
	for slot := range 2 {
		c := f.dial(slot)
		if got := c.say("slots"); got != "0" {
			t.Errorf("slot %d: %s slots", slot, got)
		}
		if got := c.say("pass 1"); got != ErrNoInbox.Error() {
			t.Errorf("slot %d: %s", slot, got)
		}
		c.Close()
	}
	// They still adopt inboxes of other slots, and are told of new ones.
	until(t, "both attach", func() bool { return f.serving(0).Attached && f.serving(1).Attached })
	f.Scale(3)
	until(t, "three workers", func() bool { return f.Status().Ready && f.serving(2).Attached })
	nettest.Signal(t, f.serving(0).PID, syscall.SIGKILL)
	f.replaced(0)
	until(t, "it is told", func() bool { return f.dial(1).say("slots") == "3" })
	if st := f.Status(); st.Crashes != 1 {
		t.Errorf("%d crashes", st.Crashes)
	}
	f.Kill() // a stop would wait for open connections
	if err := f.end(); err != nil {
		t.Error(err)
	}
}

// Connections that are passed around all the time survive rolling restarts.
func TestParcelsSurviveRollingRestarts(t *testing.T) {
	f := startFleet(t, nil).ready()
	done := make(chan struct{})
	failed := make(chan error, 8)
	for i := range 8 {
		c := f.dial(-1)
		go func() {
			for n := i; ; n++ {
				select {
				case <-done:
					failed <- nil
					return
				default:
				}
				fmt.Fprintf(c, "pass %d\n", n%2)
				line, err := c.lines.ReadString('\n')
				if err == nil && !strings.HasPrefix(line, "passed by") {
					err = errors.New(line)
				}
				if err != nil {
					failed <- fmt.Errorf("after %d: %w", n-i, err)
					return
				}
			}
		}()
	}
	for i := range 4 {
		f.restart(0, CauseRestart)
		until(t, "the rolling restart is done", func() bool { return f.Status().Restarts > i })
	}
	close(done)
	for range 8 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
