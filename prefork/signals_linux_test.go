package prefork

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// signalRow is a row of the table of signals in the guide, without those to a single process.
var signalRow = regexp.MustCompile("(?m)^\\| `([A-Z0-9]+)` \\| .+ \\| (.+) \\| (.+) \\|$")

// A signal does to a master and to a worker what the guide's table says. Those for which the
// table says "nothing" end no process and replace none.
func TestSignalsOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/guide/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	signals := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "TTIN": syscall.SIGTTIN, "TTOU": syscall.SIGTTOU, "WINCH": syscall.SIGWINCH, "PIPE": syscall.SIGPIPE,
		"KILL": syscall.SIGKILL,
	}
	// What the fleet says afterwards, beginning with what the guide says.
	master := map[string][2]string{
		"TERM": {"end, within the grace", "master returned <nil>"}, "INT": {"as TERM", "master returned <nil>"}, "QUIT": {"stacks of all processes, and end", "goroutine "},
		"HUP": {"replace the workers", "rolling restart is done"}, "USR1": {"reopen the log, in all processes", " true"},
		"USR2": {"replace the workers, with the new binary", "rolling restart is done"}, "TTIN": {"one worker more", "2 workers instead of 1"},
		"TTOU": {"one worker less", "0 workers are out of bounds, so 1"}, "WINCH": {"end the workers, keep the sockets", "paused: workers end, sockets stay open"},
		"PIPE": {"nothing", ""}, "KILL": {"it dies", "worker returned <nil>"},
	}
	worker := map[string][2]string{
		"TERM": {"the master replaces it", "worker 0.2"}, "QUIT": {"stacks, and it dies", "goroutine "}, "USR1": {"reopen the log", "reopen "},
		"KILL": {"it dies", "signal: killed"}, "INT": {}, "HUP": {}, "USR2": {}, "TTIN": {}, "TTOU": {}, "WINCH": {}, "PIPE": {},
	}
	rows := map[string][]string{"PIPE": {"nothing", "nothing"}, "KILL": {"it dies", "it dies"}} // not in the table
	for _, row := range signalRow.FindAllStringSubmatch(string(guide), -1) {
		rows[row[1]] = row[2:]
	}
	if got, want := slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(signals)); !slices.Equal(got, want) {
		t.Fatalf("the table is about %q, this test about %q", got, want)
	}
	for name, row := range rows {
		for i, effects := range []map[string][2]string{master, worker} {
			t.Run(name+[]string{" to the master", " to a worker"}[i], func(t *testing.T) {
				t.Parallel()
				c := effects[name]
				if c == [2]string{} {
					c[0] = "nothing"
				}
				if !strings.HasPrefix(row[i], c[0]) {
					t.Fatalf("the guide says %q, this test %q", row[i], c[0])
				}
				f := start(t, setup{Workers: 1, Threshold: 9, Grace: patience}, true)
				pid := f.pids()[0]
				if i == 0 {
					f.signal(signals[name])
				} else {
					syscall.Kill(pid, signals[name])
				}
				if c[1] != "" {
					until(t, c[1], func() bool { return f.count(c[1]) > 0 })
				}
				if c[0] != "nothing" {
					return
				}
				// A later signal that has arrived shows that this one had no effect.
				f.signal(syscall.SIGUSR1)
				until(t, "the logs are reopened", func() bool { return f.count("reopen "+itoa(pid)) > 0 })
				if body := f.dial().get("/"); !strings.HasPrefix(body, itoa(pid)+" ") || len(f.pids()) != 1 {
					t.Errorf("%q answers; workers %v, at first %d", body, f.pids(), pid)
				}
			})
		}
	}
}
