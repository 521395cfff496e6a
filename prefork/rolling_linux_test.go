package prefork

import (
	"bufio"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// restart replaces all workers and waits until the old ones are gone.
func (f *fleet) restart() {
	f.t.Helper()
	old := f.pids()
	f.signal(syscall.SIGHUP)
	for _, pid := range old {
		until(f.t, "the old worker ends", func() bool { return !isAlive(pid) })
	}
}

// load asks until it is told to stop, and counts what went wrong.
type load struct {
	stop              atomic.Bool
	done              sync.WaitGroup
	answered, renewed atomic.Int64

	mu     sync.Mutex
	failed []error
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

// connectEach is a client with a connection for each request.
func (l *load) connectEach(f *fleet) {
	defer l.done.Done()
	for !l.stop.Load() {
		if _, err := f.get("/slow?ms=2"); err != nil {
			l.fail(err)
			return
		}
		l.answered.Add(1)
	}
}

// keepAlive is a client that keeps its connection for as long as it may.
func (l *load) keepAlive(f *fleet) {
	defer l.done.Done()
	for !l.stop.Load() {
		c, err := net.Dial("tcp", f.addr(0))
		if err != nil {
			l.fail(err)
			return
		}
		r := bufio.NewReader(c)
		for closes := false; !closes && !l.stop.Load(); {
			if _, closes, err = ask(c, r, "/slow?ms=1"); err != nil {
				l.fail(err)
				break
			}
			l.answered.Add(1)
		}
		c.Close()
		l.renewed.Add(1)
	}
}

// Rolling restarts under load: no connect and no request fails, with new
// connections nor with busy old ones; hooks and status tell of them.
func TestRollingRestart(t *testing.T) {
	restarts := 5
	if testing.Short() {
		restarts = 2
	}
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Linger, s.Drain = 2, 300*time.Millisecond, 10*time.Second
		f := start(t, s, true)
		var l load
		for range 4 {
			l.done.Add(1)
			go l.connectEach(f)
			if s.OwnServe {
				continue // its connections cannot be told to end
			}
			l.done.Add(1)
			go l.keepAlive(f)
		}
		for range restarts {
			f.restart()
		}
		l.stop.Store(true)
		l.done.Wait()
		for _, err := range l.failed {
			t.Error(err)
		}
		if n := len(f.pids()); n != 2+2*restarts {
			t.Errorf("%d workers were started, want %d", n, 2+2*restarts)
		}
		if n := len(f.printed("reload")); n != restarts {
			t.Errorf("OnReload was called %d times", n)
		}
		if n := len(f.printed("recover ")); n != 0 {
			t.Errorf("OnChildRecover was called %d times", n)
		}
		t.Logf("%d answers, %d connections of clients that keep them", l.answered.Load(), l.renewed.Load())
		f.signal(os.Interrupt)
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
	})
}

// An idle connection gets one more answer from a worker that is replaced, and
// that says that it is the last.
func TestIdleLinger(t *testing.T) {
	f := start(t, setup{Workers: 1, Linger: patience, Drain: patience}, true)
	c, err := net.Dial("tcp", f.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	first, _, err := ask(c, r, "/")
	if err != nil {
		t.Fatal(err)
	}
	f.signal(syscall.SIGHUP)
	until(t, "the successor is ready", func() bool { return f.count("ready after") == 2 })
	until(t, "new connections are the successor's", func() bool {
		body, err := f.get("/")
		return err == nil && body != first && !strings.HasPrefix(body, strings.Fields(first)[0])
	})
	second, closes, err := ask(c, r, "/")
	if err != nil || second != first || !closes {
		t.Errorf("%q, closes %v, %v; want %q and the end", second, closes, err, first)
	}
	until(t, "the old worker ends", func() bool { return !isAlive(f.pids()[0]) })
}

// SIGUSR1 reopens logs in every process.
func TestReopen(t *testing.T) {
	f := start(t, setup{Workers: 2}, true)
	f.signal(syscall.SIGUSR1)
	until(t, "all processes have reopened", func() bool { return len(f.printed("reopen ")) == 3 })
	if n := f.count(" false"); n < 1 {
		t.Error("the master has not")
	}
}
