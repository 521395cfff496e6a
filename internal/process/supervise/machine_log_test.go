package supervise

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The log says what happens to the fleet and to its workers, and why.
//
// long: a table of histories
func TestLogOfFleet(t *testing.T) {
	bad, failed := errors.New("bad file"), &BootError{Class: "config", Text: "no such key"}
	begin := func(s *script) {
		s.start()
		s.log = nil
	}
	for _, c := range []struct {
		name  string
		lives func(s *script)
		want  string
	}{
		{"start", func(s *script) {
			s.feed(event{kind: evStart})
			s.boot(0, 1)
			s.boot(1, 1)
		}, `
worker 0.1 (pid 101): started
worker 0.1 (pid 101): ready after 0s
worker 1.1 (pid 102): started
worker 1.1 (pid 102): ready after 0s
all 2 workers are ready
`},
		{"death", func(s *script) {
			begin(s)
			s.exit(1, 1)
			s.sleep(2 * time.Second)
			s.feed(event{kind: evSpawnFailed, worker: key{1, 2}, err: bad})
			s.sleep(2 * time.Second)
			s.boot(1, 3)
		}, `
worker 1.1 (pid 102): died: exit status 1 (1 of 3 deaths allowed)
worker 0.1 (pid 101): serves the queue of slot 1 meanwhile
worker 1.2: cannot be started: bad file
worker 1.3 (pid 103): started
worker 1.3 (pid 103): ready after 0s
`},
		{"never ready", func(s *script) {
			s.feed(event{kind: evStart})
			s.feed(event{kind: evSpawned, worker: key{0, 1}, pid: 7})
			s.feed(event{kind: evSpawned, worker: key{1, 1}, pid: 8})
			s.sleep(30 * time.Second)
			s.feed(event{kind: evFatal, worker: key{0, 1}, failure: failed})
			s.exit(0, 1)
			s.exit(1, 1)
		}, `
worker 0.1 (pid 7): started
worker 1.1 (pid 8): started
worker 0.1 (pid 7): not ready after 30s (BootTimeout): killed
worker 1.1 (pid 8): not ready after 30s (BootTimeout): killed
worker 0.1 (pid 7): cannot serve: config: no such key
worker 0.1 (pid 7): died: exit status 1
worker 1.1 (pid 8): exit status 1
stopped
`},
		{"recycled", func(s *script) {
			begin(s)
			s.feed(event{kind: evRecycle, worker: key{0, 1}, text: "too large"})
			s.exit(0, 1)
			s.boot(0, 2)
			s.feed(event{kind: evRecycle, worker: key{0, 2}, text: "SIGTERM"})
			s.boot(0, 3)
			s.feed(event{kind: evDrained, worker: key{0, 2}, text: "{}"})
			s.exit(0, 2)
		}, `
worker 0.1 (pid 101): wants to be replaced: too large
worker 0.1 (pid 101): exit status 1, before its successor was ready
worker 1.1 (pid 102): serves the queue of slot 0 meanwhile
worker 0.2 (pid 103): started
worker 0.2 (pid 103): ready after 0s
worker 0.2 (pid 103): wants to be replaced: SIGTERM
worker 0.3 (pid 104): started
worker 0.3 (pid 104): ready after 0s
worker 0.2 (pid 103): drained: {}
worker 0.2 (pid 103): exit status 1
`},
		{"restarts", func(s *script) {
			begin(s)
			s.feed(event{kind: evRefused, err: bad})
			s.feed(event{kind: evRestart})
			s.feed(event{kind: evRestart})
			s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 7})
			s.exit(0, 2)
		}, `
reload failed, nothing changes: bad file
rolling restart begins: version 2
another rolling restart follows the one that is under way
worker 0.2 (pid 7): started
worker 0.2 (pid 7): exit status 1, before it was ready
rolling restart failed in slot 0: all slots get version 1 back
all workers have version 1 again
rolling restart begins: version 3
`},
		{"hang", func(s *script) {
			begin(s)
			s.sleep(0)
			s.run(3*time.Second, s.pong(key{0, 1}))
			s.boot(1, 2)
			s.run(2*time.Second, s.pong(key{0, 1}, key{1, 2}))
			s.sleep(time.Hour)
		}, `
worker 1.1 (pid 102): hangs: no answer to a PING for 3s (1 of 3 deaths allowed)
worker 0.1 (pid 101): serves the queue of slot 1 meanwhile
worker 1.2 (pid 103): started
worker 1.2 (pid 103): ready after 0s
worker 1.1 (pid 102): still runs 2s after SIGQUIT: killed
the master stood still for 1h0m0s: no worker counts as hanging for that time
`},
		{"commands", func(s *script) {
			begin(s)
			s.feed(event{kind: evScale, number: 99})
			s.feed(event{kind: evScale, number: 2})
			s.feed(event{kind: evPause})
			s.feed(event{kind: evRestart})
			s.feed(event{kind: evStop})
			s.feed(event{kind: evReopen})
			s.feed(event{kind: evStop})
			s.sleep(2 * time.Second)
		}, `
99 workers are out of bounds, so 3
3 workers instead of 2
2 workers instead of 3
paused: workers end, sockets stay open; SIGHUP starts the workers again
resumed: workers start again
rolling restart begins: version 2
stopping: workers have 5s
the fleet is stopping: command ignored
stopping at once: workers have 1s
worker 0.1 (pid 101): did not end in time: killed
worker 1.1 (pid 102): did not end in time: killed
`},
		{"too many deaths", func(s *script) {
			begin(s)
			for generation := range 4 {
				s.exit(1, generation+1)
				s.sleep(time.Second * 9)
				if generation < 3 {
					s.boot(1, generation+2)
				}
			}
		}, `
worker 1.1 (pid 102): died: exit status 1 (1 of 3 deaths allowed)
worker 0.1 (pid 101): serves the queue of slot 1 meanwhile
worker 1.2 (pid 103): started
worker 1.2 (pid 103): ready after 0s
worker 1.2 (pid 103): died: exit status 1 (2 of 3 deaths allowed)
worker 0.1 (pid 101): serves the queue of slot 1 meanwhile
the master stood still for 9s: no worker counts as hanging for that time
worker 1.3 (pid 104): started
worker 1.3 (pid 104): ready after 0s
worker 1.3 (pid 104): died: exit status 1 (3 of 3 deaths allowed)
worker 0.1 (pid 101): serves the queue of slot 1 meanwhile
the master stood still for 9s: no worker counts as hanging for that time
worker 1.4 (pid 105): started
worker 1.4 (pid 105): ready after 0s
worker 1.4 (pid 105): died: exit status 1 (4 of 3 deaths allowed)
too many workers died: stopping
worker 0.1 (pid 101): serves the queue of slot 1 meanwhile
stopping: workers have 5s
worker 0.1 (pid 101): did not end in time: killed
`},
		{"quit", func(s *script) {
			begin(s)
			s.feed(event{kind: evQuit})
		}, `
SIGQUIT: stacks of all processes follow
`},
	} {
		s := newScript(t, Config{
			Workers: 2, MaxWorkers: 3, Sockets: noSockets, RecoverThreshold: 3, RecoverInterval: time.Second, HangTimeout: 3 * time.Second,
		})
		c.lives(s)
		if got := "\n" + strings.Join(s.log, "\n") + "\n"; got != c.want {
			t.Errorf("%s: the log is%swant%s", c.name, got, c.want)
		}
	}
}
