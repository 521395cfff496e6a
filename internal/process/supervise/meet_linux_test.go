package supervise

import (
	"errors"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A meeting is a spawner with workers that are in this process.
type meeting struct {
	spawner *spawner
	log     *logLines
	workers []*met

	onStream func(*os.File) // of workers that are added
}

// A met is a worker and the streams that it has got.
type met struct {
	*Worker
	process *process
	mu      sync.Mutex
	streams []*os.File
}

func newMeeting() *meeting {
	log := &logLines{}
	m := &Master{config: Config{Logger: log}, events: newMailbox[event]()}
	m.spawner = &spawner{master: m, processes: make(map[key]*process)}
	return &meeting{spawner: m.spawner, log: log}
}

// add adds a worker, and begins to read what it and the master send.
func (m *meeting) add(t *testing.T) *met {
	t.Helper()
	ours, theirs := linkPair(t)
	p := &process{key: key{len(m.workers), 1}, link: ours}
	w := &met{process: p, Worker: &Worker{orphaned: make(chan struct{}), options: AttachOptions{Logger: noLogger{}, OnStream: m.onStream}, attachment: attachment{link: theirs, pings: newProbes()}}}
	w.orders = newOrderQueue()
	m.spawner.mu.Lock()
	m.spawner.processes[p.key] = p
	m.spawner.mu.Unlock()
	m.workers = append(m.workers, w)
	var done sync.WaitGroup
	done.Go(func() { m.spawner.master.listen(p) })
	w.orphan.Do(func() {}) // here the end of the link does not mean the master's death
	done.Go(w.listen)
	t.Cleanup(func() {
		ours.hangUp()
		theirs.hangUp()
		done.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		closeFiles(w.streams)
	})
	return w
}

// replace replaces the workers that the spawner knows, but for those that have not met.
func (m *meeting) replace(by ...*process) {
	m.spawner.mu.Lock()
	defer m.spawner.mu.Unlock()
	maps.DeleteFunc(m.spawner.processes, func(_ key, p *process) bool { return p.hasMet })
	for _, p := range by {
		m.spawner.processes[p.key] = p
	}
}

// logged returns the lines of the log.
func (m *meeting) logged() []string {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return slices.Clone(m.log.lines)
}

func (w *met) take(f *os.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = append(w.streams, f)
}

func (w *met) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.streams)
}

// Each two workers that ask get a stream, also more than one message can carry. Those that do
// not ask get none.
func TestMeet(t *testing.T) {
	m := newMeeting()
	silent := m.add(t)
	const count = maxDescriptors + 3
	for i := range count {
		w := m.add(t)
		if err := w.Meet(w.take); err != nil {
			t.Fatal(err)
		}
		if n := w.count(); n != i {
			t.Fatalf("worker %d has got %d streams", i, n)
		}
	}
	for _, w := range m.workers[1:] {
		until(t, "streams to all", func() bool { return w.count() == count-1 })
	}
	if n := silent.count(); n != 0 {
		t.Errorf("%d streams without asking", n)
	}
	// The last stream of the first worker leads to the last worker.
	first, last := m.workers[1], m.workers[count]
	if _, err := first.streams[count-2].WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, count)
	for _, f := range last.streams {
		go func() {
			buffer := make([]byte, 10)
			n, _ := f.Read(buffer)
			found <- string(buffer[:n])
		}()
	}
	if got := <-found; got != "hello" {
		t.Errorf("got %q", got)
	}
	m.spawner.introduce(first.process) // again: it has met all
	if n := first.count(); n != count-1 || len(m.logged()) > 0 {
		t.Errorf("%d streams, log %q", n, m.logged())
	}
}

// A worker that has ended is omitted. One that reads nothing is omitted and logged.
func TestMeetWithTheDead(t *testing.T) {
	m := newMeeting()
	dead := m.add(t)
	if err := dead.Meet(dead.take); err != nil {
		t.Fatal(err)
	}
	dead.link.close()
	_, unread := linkPair(t)
	for unread.send(message{kind: messagePing}, nil) == nil {
	}
	stuck := &process{key: key{99, 1}, link: unread, hasMet: true}
	m.spawner.mu.Lock()
	m.spawner.processes[stuck.key] = stuck
	m.spawner.mu.Unlock()
	w := m.add(t)
	if err := w.Meet(w.take); err != nil || w.count() != 0 {
		t.Errorf("%v, %d streams", err, w.count())
	}
	if log := m.logged(); len(log) != 1 || !strings.Contains(log[0], errLinkFull.Error()) {
		t.Errorf("log %q", log)
	}
}

// The master keeps no end of a stream, whatever becomes of it. What a worker does not get
// is logged, unless it has ended.
func TestMeetLeavesNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would close what leaks
	m := newMeeting()
	first, second, third := m.add(t), m.add(t), m.add(t)
	_, full := linkPair(t)
	for full.send(message{kind: messagePing}, nil) == nil {
	}
	before := descriptors(t, os.Getpid())
	check := func(what string, lines int, text string) {
		t.Helper()
		if log := m.logged(); len(log) != lines || lines > 0 && !strings.Contains(log[lines-1], text) {
			t.Errorf("%s: log %q", what, log)
		}
		for _, w := range m.workers {
			w.mu.Lock()
			closeFiles(w.streams)
			w.streams = nil
			w.mu.Unlock()
		}
		until(t, what+": all descriptors are closed", func() bool { return descriptors(t, os.Getpid()) <= before })
	}
	for i, w := range []*met{first, second} {
		if err := w.Meet(w.take); err != nil {
			t.Fatal(err)
		}
		until(t, "both have got the stream", func() bool { return first.count() == i && second.count() == i })
	}
	check("a meeting", 0, "")
	m.replace(&process{key: key{9, 1}, link: full, hasMet: true})
	if err := third.Meet(third.take); err != nil {
		t.Error(err)
	}
	check("one that reads nothing", 1, "worker 2.1 cannot be connected with worker 9.1: sluice: control socket is full")
	m.replace()
	ended, closed := m.add(t), m.add(t)
	before = descriptors(t, os.Getpid())
	closed.process.link.close()
	before--
	m.spawner.introduce(closed.process)
	check("a link that is closed", 2, "worker 4.1 is not connected with the others: ")
	m.replace()
	ended.link.close()
	before--
	m.spawner.introduce(ended.process)
	check("one that has ended", 2, "")
	if err := ended.Meet(ended.take); err == nil || errors.Is(err, errMeetLate) {
		t.Errorf("a worker whose link is closed: %v", err)
	}
}

// A worker learns that streams could not be made, and does not wait for ever.
func TestMeetFails(t *testing.T) {
	w := &Worker{orphaned: make(chan struct{})}
	answer := w.meetings.begin(func(*os.File) {})
	w.meetings.message(message{kind: messageMeet, flags: flagAnswer | flagFailed}, nil)
	if err := <-answer; !errors.Is(err, errMeet) {
		t.Error(err)
	}
	if err := (&Worker{bare: true}).Meet(nil); !errors.Is(err, ErrDetached) {
		t.Error(err)
	}
	if w.meetings.message(message{kind: messagePing}, nil) {
		t.Error("a ping is about streams")
	}
	pipe := somePipe(t)
	before := openFiles(t, pipe)
	(&meetings{}).message(message{kind: messageMeet, flags: flagAnswer}, []int{duplicate(t, pipe)}) // it has not asked
	if n := openFiles(t, pipe); n != before {
		t.Errorf("%d descriptors are open, %d before", n, before)
	}
	synctest.Test(t, func(t *testing.T) {
		ours, _ := linkPair(t)
		w := &Worker{orphaned: make(chan struct{}), attachment: attachment{link: ours}}
		if err := w.Meet(nil); !errors.Is(err, errMeetLate) {
			t.Error(err)
		}
		close(w.orphaned)
		if err := w.Meet(nil); !errors.Is(err, errMeetLate) {
			t.Error(err)
		}
	})
}
