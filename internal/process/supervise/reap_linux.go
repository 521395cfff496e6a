package supervise

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// reapPatience is how long a dead child that is not a worker is left for other
	// code of this program to wait for.
	reapPatience = time.Second
	reapInterval = reapPatience / 4
)

// reapAdopted reaps the processes that the kernel gives to process 1 when their
// parents die, until stop is called. In any other process it does nothing.
func (m *Master) reapAdopted() (stop func()) {
	if os.Getpid() != 1 {
		return func() {}
	}
	return ReapOthers(m.spawner.hasPID)
}

// ReapOthers reaps children of this process for which isWorker is false, until stop is
// called: those that the kernel gives to it when their parents die.
func ReapOthers(isWorker func(pid int) bool) (stop func()) {
	children := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		r := reaper{isWorker: isWorker, seen: make(map[int]time.Time), mayHaveMore: true}
		tick := time.Tick(reapInterval)
		for {
			select {
			case <-done:
				return
			case <-children:
				r.mayHaveMore = true
			case <-tick:
				r.reap(time.Now())
			}
		}
	}()
	return func() {
		signal.Stop(children)
		close(done)
	}
}

// reaper finds dead children in /proc and waits for each by its pid. A wait for any
// child would take workers' exit statuses from os/exec, and waitid with WNOWAIT
// reports only the first dead child.
type reaper struct {
	isWorker    func(pid int) bool
	seen        map[int]time.Time // dead children that are not workers, and when each was first seen
	mayHaveMore bool              // a child has ended since the last call of reap
}

// reap finds dead children and reaps those for which no other code has waited.
func (r *reaper) reap(now time.Time) {
	if !r.mayHaveMore && len(r.seen) == 0 {
		return
	}
	r.mayHaveMore = false
	dead := deadChildren()
	for pid := range r.seen {
		if !dead[pid] {
			delete(r.seen, pid)
		}
	}
	for pid := range dead {
		if r.isWorker(pid) {
			continue
		}
		since, known := r.seen[pid]
		if !known {
			r.seen[pid] = now
		} else if now.Sub(since) >= reapPatience {
			var status unix.WaitStatus
			unix.Wait4(pid, &status, unix.WNOHANG, nil)
			delete(r.seen, pid)
		}
	}
}

// deadChildren returns the children of this process that are dead and not waited for.
func deadChildren() map[int]bool {
	dead := make(map[int]bool)
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		if pid, state, parent, ok := parseStat(text); ok && state == 'Z' && parent == os.Getpid() {
			dead[pid] = true
		}
	}
	return dead
}

// parseStat reads the beginning of /proc/N/stat: "pid (name) state parent …". The
// name may contain any byte, including parentheses.
func parseStat(text []byte) (pid int, state byte, parent int, ok bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return 0, 0, 0, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, 0, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	parent, parentErr := strconv.Atoi(string(fields[1]))
	return pid, fields[0][0], parent, err == nil && parentErr == nil
}
