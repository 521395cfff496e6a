package prefork

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// A full log pipe stops only the log: the fleet recovers, restarts, reports its
// status and ends (I31). The lines written meanwhile arrive when the pipe is read.
func TestFullLogPipe(t *testing.T) {
	for _, isRead := range []bool{true, false} {
		name := map[bool]string{true: "read at last", false: "never read"}[isRead]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			f := start(t, setup{Workers: 2, Threshold: 9, Admin: "127.0.0.1:0", FullLog: gate, Drain: time.Second, Linger: time.Millisecond}, true)
			if f.count("ready after") != 0 {
				t.Fatalf("the log is read: %q", f.said("ready after"))
			}
			nettest.Signal(t, f.pids()[0], syscall.SIGKILL)
			until(t, "the worker that was killed has a successor", func() bool {
				s := statusAt(t, "tcp", f.admin())
				return s.Crashes == 1 && s.Ready && len(s.Workers) == 2
			})
			f.signal(syscall.SIGHUP)
			until(t, "all workers are replaced", func() bool { return statusAt(t, "tcp", f.admin()).Restarts == 1 })
			if _, err := f.get("/"); err != nil {
				t.Error(err)
			}
			if isRead {
				open(t, gate)
				until(t, "the log is there", func() bool { return f.count("rolling restart is done") == 1 })
			}
			f.signal(syscall.SIGTERM)
			if status := f.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
		})
	}
}

// A worker whose log is a full pipe notices its master's death like any other.
func TestFullLogPipeOfOrphans(t *testing.T) {
	f := start(t, setup{Workers: 2, FullLog: filepath.Join(t.TempDir(), "gate"), Grace: 100 * time.Millisecond}, true)
	f.cmd.Process.Kill()
	<-f.ended
	for _, pid := range f.pids() {
		until(t, "the orphan ends", func() bool { return !isAlive(pid) })
	}
}
