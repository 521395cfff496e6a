package prefork

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// After SIGTERM, slow requests finish, and only one that never ends is cut at the
// deadline (I7).
func TestStopCutsWhatIsStuck(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("TestStopIsBounded has half of it")
	}
	eachServing(t, func(t *testing.T, s setup) {
		const grace, slow = 3 * time.Second, 10
		s.Workers, s.Grace = 2, grace
		f := start(t, s, true)
		gate := filepath.Join(t.TempDir(), "gate")
		answers, stuck := make(chan error, slow), make(chan error, 1)
		for range slow {
			go func() {
				_, err := f.get("/gate?file=" + gate)
				answers <- err
			}()
		}
		go func() {
			_, err := f.get("/slow?ms=60000")
			stuck <- err
		}()
		until(t, "all are in flight", func() bool { return connections(t, f.pids()) == slow+1 })
		began := time.Now()
		f.signal(syscall.SIGTERM)
		until(t, "it is stopping", func() bool { return f.count("stopping: ") == 1 })
		open(t, gate)
		for range slow {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if took := time.Since(began); took < grace {
			t.Errorf("it had %v, not the grace of %v", took, grace)
		}
		if err := <-stuck; err == nil {
			t.Error("the one that never ends was answered")
		}
		ln, err := net.Listen("tcp4", f.addr(0))
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
	})
}

// A killed master leaves no orphans, even if a request never ends (I8).
func TestOrphansEnd(t *testing.T) {
	t.Parallel() // it mostly waits
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Grace = 2, 300*time.Millisecond
		f := start(t, s, true)
		stuck := make(chan error, 1)
		go func() {
			_, err := f.get("/slow?ms=60000")
			stuck <- err
		}()
		until(t, "it is in flight", func() bool { return connections(t, f.pids()) == 1 })
		f.signal(syscall.SIGKILL)
		f.wait()
		for _, pid := range f.pids() {
			until(t, "the worker ends", func() bool { return !isAlive(pid) })
		}
		if err := <-stuck; err == nil {
			t.Error("the one that never ends was answered")
		}
		s.Addr = f.addr(0)
		next := start(t, s, true)
		if _, err := next.get("/"); err != nil {
			t.Error(err)
		}
	})
}

// When the fleet or a worker is told to end, what waits is answered: connections that
// no worker has accepted, and those on their way between workers (I4, I7).
func TestWhatWaitsIsAnswered(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		for how, signal := range map[string]syscall.Signal{"stop": syscall.SIGTERM, "scale down": syscall.SIGTTOU, "restart": syscall.SIGHUP} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				f := start(t, setup{Workers: 2, Engine: engine, Grace: patience, Drain: patience, Linger: patience}, true)
				worker := f.pids()[1]
				waiting := f.fillQueueAndInbox(f.segment(), worker, 100)
				f.signal(signal)
				word := map[string]string{"stop": "stopping: ", "scale down": " instead of ", "restart": "rolling restart begins"}[how]
				until(t, "the master knows", func() bool { return f.count(word) > 0 })
				nettest.Signal(t, worker, syscall.SIGCONT)
				for i, c := range waiting {
					if err := c.expect("slow"); err != nil {
						t.Errorf("connection %d: %v", i, err)
					}
				}
				if how == "stop" {
					if status := f.wait(); status != 0 {
						t.Errorf("exit status %d", status)
					}
				}
			})
		}
	}
}
