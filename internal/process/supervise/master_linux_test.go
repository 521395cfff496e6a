package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inboxedProcess returns a master that does not run, and the end of the link of its
// only worker.
func inboxedProcess(t *testing.T) (m *Master, log *logLines, worker *link) {
	t.Helper()
	ours, theirs := linkPair(t)
	log = &logLines{}
	m = &Master{config: Config{Inboxes: true, Logger: log}}
	m.spawner = &spawner{master: m, inboxes: map[int]*inboxPair{}, processes: map[key]*process{
		{0, 1}: {key: key{0, 1}, link: ours, child: ownChild{&exec.Cmd{Process: &os.Process{Pid: 4711}}}},
		{1, 1}: {key: key{1, 1}, child: ownChild{&exec.Cmd{Process: &os.Process{Pid: 4712}}}}, // without a control socket
	}}
	t.Cleanup(m.spawner.close)
	return m, log, theirs
}

// A failed send to a worker is logged, unless the worker has ended: that is in the
// log already.
func TestSendingIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		send func(m *Master)
		log  string
	}{
		"order": {func(m *Master) { m.send(key{0, 1}, message{kind: messageReopen}, nil) }, "worker 0.1 (pid 4711): "},
		"inbox": {func(m *Master) {
			if err := m.spawner.openInbox(2); err != nil {
				t.Error(err)
			}
		}, "worker 0.1: not told of the inbox of slot 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			m, log, worker := inboxedProcess(t)
			c.send(m)
			if got, files, err := worker.receive(); err != nil || got.kind != messageReopen && (got.slot != 2 || len(files) != 1) {
				t.Errorf("received %+v with %d files: %v", got, len(files), err)
			}
			worker.close()
			m.spawner.close() // the inbox that was opened
			c.send(m)
			m.send(key{1, 1}, message{kind: messageReopen}, nil)
			m.send(key{2, 1}, message{kind: messageReopen}, nil)
			if len(log.lines) > 0 {
				t.Errorf("log: %q", log.lines)
			}
			m.spawner.processes[key{0, 1}].link.close()
			m.spawner.close()
			c.send(m)
			if len(log.lines) != 1 || !log.has(c.log) {
				t.Errorf("log: %q, want %q", log.lines, c.log)
			}
		})
	}
}

// A worker is lent the sockets of another slot, unless all share them, and its inbox. Both
// are taken back.
func TestLending(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   []messageType
	}{
		{"sockets", func(c *Config) { c.Sockets = noSockets }, []messageType{messageAdopt, messageInbox, messageRelease, messageInboxOff}},
		{"shared sockets", func(c *Config) { c.Sockets, c.SharedSockets = noSockets, true }, []messageType{messageInbox, messageInboxOff}},
		{"no sockets", func(*Config) {}, []messageType{messageInbox, messageInboxOff}},
	} {
		m, _, worker := inboxedProcess(t)
		c.change(&m.config)
		m.spawner.sockets = map[int][]*os.File{}
		if _, err := m.spawner.open(1); err != nil {
			t.Fatal(err)
		}
		heard(t, worker, messagePeer)
		m.perform(action{kind: actAdopt, worker: key{0, 1}, slot: 1})
		m.perform(action{kind: actRelease, worker: key{0, 1}, slot: 1})
		worker.hangUp() // what is pending is received
		var got []messageType
		for {
			m, descriptors, err := worker.receive()
			if err != nil {
				break
			}
			closeAll(descriptors)
			if got = append(got, m.kind); m.slot != 1 {
				t.Errorf("%s: message %d is about slot %d", c.name, m.kind, m.slot)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: messages %v, want %v", c.name, got, c.want)
		}
	}
}

// goroutinesOf counts the goroutines that run these methods.
func goroutinesOf(methods ...string) (n int) {
	stacks := string(allStacks())
	for _, m := range methods {
		n += strings.Count(stacks, "supervise."+m+"(")
	}
	return n
}

// When Run returns, its goroutines end and the status has no workers.
func TestRunLeavesNoGoroutines(t *testing.T) {
	methods := []string{"(*Master).runHooks", "(*Master).loop", "(*Master).watch", "(*spawner).run", "(*Journal).write"}
	before := goroutinesOf(methods...)
	f := startFleet(t, nil).ready()
	if n := goroutinesOf(methods...); n < 4 { // the loop, hooks, the spawner, a watch for each worker
		t.Fatalf("only %d goroutines run a fleet of two", n)
	}
	f.Stop()
	if err := f.end(); err != nil {
		t.Error(err)
	}
	until(t, "the goroutines end", func() bool { return goroutinesOf(methods...) <= before })
	st := f.Status()
	for _, s := range st.Slots {
		if len(s.Workers) > 0 {
			t.Errorf("slot %d still has %+v", s.Slot, s.Workers)
		}
	}
	if !st.Stopping || st.Ready {
		t.Errorf("after Run: %+v", st)
	}
	if err := f.Run(context.Background()); err != ErrRunning {
		t.Errorf("a second Run: %v", err)
	}
}

// The end of Run's context is an ordered stop.
func TestRunEndsWithItsContext(t *testing.T) {
	f := startFleet(t, nil).ready()
	f.cancel()
	if err := f.end(); err != nil || f.log.has("killed") || f.log.has("at once") {
		t.Error(err, f.log.lines)
	}
}

// slowLog delays each line.
type slowLog struct{ Logger }

func (l slowLog) Printf(format string, args ...any) {
	time.Sleep(20 * time.Millisecond)
	l.Logger.Printf(format, args...)
}

// Run returns after the log was written, because the process may end next.
func TestRunWritesItsLog(t *testing.T) {
	f := startFleet(t, func(c *Config) { c.Logger = slowLog{c.Logger} }).ready()
	f.Stop()
	if err := f.end(); err != nil {
		t.Error(err)
	}
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	if f.journal.idle != nil || len(f.journal.lines) > 0 {
		t.Errorf("%d lines are left, or one is being written", len(f.journal.lines))
	}
}

// The stacks of many goroutines are written completely.
func TestAllStacks(t *testing.T) {
	const many = 2000 // some hundred KiB
	release := make(chan struct{})
	defer close(release)
	for range many {
		go func() { <-release }()
	}
	until(t, "all stacks are there", func() bool { return bytes.Count(allStacks(), []byte("TestAllStacks.func1(")) == many })
	if runtime.NumGoroutine() < many {
		t.Error("the goroutines are gone")
	}
}

// A worker's text takes one line of the log.
func TestOneLine(t *testing.T) {
	if got := oneLine([]byte("a\nb\x00\x1f\x7f\u0085 ~é!")); got != "a b     ~é!" {
		t.Errorf("%q", got)
	}
}

// Messages that are unknown or damaged are no events.
func TestEventOf(t *testing.T) {
	for _, c := range []struct {
		message message
		want    event
		isEvent bool
	}{
		{message{kind: messageReady}, event{kind: evReady}, true},
		{message{kind: messageAck}, event{kind: evAttached}, true},
		{message{kind: messagePong}, event{kind: evPong}, true},
		{message{kind: messageDrained, payload: []byte("a\nb")}, event{kind: evDrained, text: "a b"}, true},
		{message{kind: messageRecycle, payload: []byte("a\nb")}, event{kind: evRecycle, text: "a b"}, true},
		{message{kind: messageFatal, payload: []byte(`{"class":"bind","text":"in use"}`)}, event{kind: evFatal, failure: &BootError{Class: "bind", Text: "in use"}}, true},
		{message{kind: messageFatal, payload: []byte("not JSON")}, event{}, false},
		{message{kind: messageHello}, event{}, false},
	} {
		if got, isEvent := eventOf(c.message); !reflect.DeepEqual(got, c.want) || isEvent != c.isEvent {
			t.Errorf("%+v: %+v, %v", c.message, got, isEvent)
		}
	}
}

// helloOf returns the HELLO with a layout.
func helloOf(l layout) message { return message{kind: messageHello, payload: appendLayout(nil, l)} }

// placeControl makes a control socket descriptor fd, on which messages wait.
func placeControl(t *testing.T, fd int, send ...message) (master *link) {
	t.Helper()
	ours, theirs := linkPair(t)
	for _, m := range send {
		if err := ours.send(m, nil); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := theirs.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(from uintptr) {
		if err := unix.Dup3(int(from), fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	})
	theirs.close()
	t.Cleanup(func() { unix.Close(fd) })
	return ours
}

// A worker finds its control socket among the descriptors up to 255 if a HELLO is
// pending there.
func TestFindControl(t *testing.T) {
	right := layout{Slot: 1, Generation: 2, Control: 0, Lifeline: 1}
	for _, c := range []struct {
		name string
		fd   int
		send []message
		want int
	}{
		{"the last one", 255, []message{helloOf(right)}, 255},
		{"beyond it", 256, []message{helloOf(right)}, -1},
		{"nothing waits", 255, nil, -1},
		{"another message", 255, []message{{kind: messagePing}, helloOf(right)}, -1},
		{"more after it", 255, []message{helloOf(right), {kind: messagePing}}, 255},
	} {
		t.Run(c.name, func(t *testing.T) {
			placeControl(t, c.fd, c.send...)
			fd, l, err := findControl()
			if fd != c.want || err != nil || c.want >= 0 && (l.Slot != 1 || l.Generation != 2) {
				t.Errorf("found %d, %+v, %v; want %d", fd, l, err, c.want)
			}
		})
	}
	t.Run("a socket of another type", func(t *testing.T) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(pair[:])
		unix.Write(pair[0], appendMessage(nil, helloOf(right)))
		if err := unix.Dup3(pair[1], 255, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(255)
		if fd, _, err := findControl(); fd != -1 || err != nil {
			t.Errorf("found %d, %v", fd, err)
		}
	})
	t.Run("a layout that is not sound", func(t *testing.T) {
		placeControl(t, 255, helloOf(layout{Slot: 1, Control: 5, Lifeline: 2}))
		if _, _, err := findControl(); err == nil {
			t.Error("there is no error")
		}
		if err := new(Worker).attach(); err == nil {
			t.Error("it is attached to")
		}
	})
	t.Run("a descriptor that is no listener", func(t *testing.T) {
		placeControl(t, 255, helloOf(layout{Slot: 1, Generation: 2, Listeners: 2, Control: 2, Lifeline: 3}))
		place(t, somePort(t), 253)
		place(t, someFile(t), 254)
		w := new(Worker)
		if err := w.attach(); err == nil || err.Error() != "sluice: descriptor 254 is not a listener" {
			t.Errorf("attached: %v", err)
		}
		w.link.close()
		closeFiles(w.listeners)
		unix.Close(254)
	})
}

// Attaching is not logged, unless the master has ended meanwhile.
func TestAttaching(t *testing.T) {
	hello := helloOf(layout{Slot: 1, Generation: 2, Control: 0, Lifeline: 1})
	attach := func(t *testing.T) *logLines {
		t.Helper()
		log := &logLines{}
		w := &Worker{options: AttachOptions{Logger: log, NoSignals: true}, orders: newOrderQueue(), orphaned: make(chan struct{})}
		w.orphan.Do(func() {}) // here the end of the link does not mean the master's death
		if err := w.attach(); err != nil {
			t.Error(err)
		}
		w.link.close()
		return log
	}
	t.Run("a master", func(t *testing.T) {
		master := placeControl(t, 255, hello)
		if log := attach(t); len(log.lines) > 0 {
			t.Errorf("log: %q", log.lines)
		}
		heard(t, master, messageAck)
	})
	t.Run("a master that has ended", func(t *testing.T) {
		placeControl(t, 255, hello).close()
		if log := attach(t); len(log.lines) != 1 || !log.has("worker: broken pipe") {
			t.Errorf("log: %q", log.lines)
		}
	})
}

// An orphan has half a second beyond its grace. Then it ends, whatever it does.
func TestOrphansHaveTheirGrace(t *testing.T) {
	t.Parallel() // it mostly waits
	m := startMaster(t, masterSpec{Workers: 1, Role: "stuck", GraceMS: 300, OrphanMS: 300})
	m.address()
	workers := m.workers()
	killed := time.Now()
	m.signal(syscall.SIGKILL)
	for _, pid := range workers {
		until(t, "the worker is gone", func() bool { return isGone(pid) })
	}
	if took := time.Since(killed); took < 800*time.Millisecond {
		t.Errorf("it ended %v after the master, want at least 800 ms", took)
	}
}

// If sockets cannot be used, New fails and leaves none open.
func TestBadSockets(t *testing.T) {
	file := someFile(t)
	open := func(n int) (files []*os.File) {
		for range n {
			f, err := os.Open(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		return files
	}
	isClosed := func(f *os.File) bool { return f.Close() != nil }
	closed, firstClosed := open(3), open(2)
	closed[1].Close()
	firstClosed[0].Close()
	refused := errors.New("refused")
	if m, err := New(Config{}); m != nil || err == nil {
		t.Errorf("without workers: %v, %v", m, err)
	}
	for name, c := range map[string]struct {
		files []*os.File
		err   error
		text  string
	}{
		"closed":       {closed, nil, "socket of a slot"},
		"first closed": {firstClosed, nil, "socket of a slot"},
		"too many":     {open(maxDescriptors + 1), nil, "at most 64"},
		"error":        {nil, refused, "refused"},
	} {
		m, err := New(Config{Workers: 1, Sockets: func(int) ([]*os.File, error) { return c.files, c.err }})
		if m != nil || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
		for i, f := range c.files {
			if !isClosed(f) {
				t.Errorf("%s: file %d is left open", name, i)
			}
		}
	}
	if n := openFiles(t, file); n != 1 {
		t.Errorf("%d descriptors are open, want that of the test", n)
	}
	most := open(maxDescriptors)
	m, err := New(Config{Workers: 1, Sockets: func(int) ([]*os.File, error) { return most, nil }})
	if err != nil {
		t.Fatal(err)
	}
	m.release()
}

// SocketsClosed is called once, and no sockets are made after it.
func TestSocketsClosedIsCalledOnce(t *testing.T) {
	calls := 0
	m, err := New(Config{Workers: 1, Sockets: noSockets, SocketsClosed: func() { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	m.perform(action{kind: actCloseSockets})
	if calls != 1 {
		t.Errorf("called %d times", calls)
	}
	if _, err := m.spawner.open(1); err != errStopping {
		t.Errorf("sockets of another slot: %v", err)
	}
	m.Close()
	if calls != 1 {
		t.Errorf("called %d times after Close", calls)
	}
}

// A log without a reader does not delay the master.
func TestBlockedLogDelaysNothing(t *testing.T) {
	log := &gatedLog{gate: make(chan struct{})}
	m, err := New(Config{Workers: 1, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	logged := make(chan struct{})
	go func() {
		m.perform(action{kind: actLog, text: "a line"})
		close(logged)
	}()
	select {
	case <-logged:
	case <-time.After(patience):
		t.Error("the master waits for its log")
	}
	close(log.gate)
	m.journal.Flush()
	if !slices.Equal(log.lines, []string{"a line"}) {
		t.Errorf("log: %q", log.lines)
	}
}

// A signal that cannot be sent is logged, unless the process has ended.
func TestSignallingIsLogged(t *testing.T) {
	m, log, _ := inboxedProcess(t)
	m.signal(key{7, 1}, syscall.SIGTERM) // no such worker
	if !m.spawner.hasPID(4712) || m.spawner.hasPID(1) {
		t.Error("the pid of another worker is known, or not that of a worker")
	}
	p := m.spawner.processes[key{0, 1}]
	p.child = ownChild{exec.Command("/bin/true")}
	if err := p.child.(ownChild).command.Run(); err != nil {
		t.Fatal(err)
	}
	m.signal(p.key, syscall.SIGTERM)
	if len(log.lines) > 0 {
		t.Errorf("log: %q", log.lines)
	}
	p.child.(ownChild).command.Process, _ = os.FindProcess(os.Getpid())
	m.signal(p.key, syscall.Signal(0))
	m.signal(p.key, syscall.Signal(99))
	want := fmt.Sprintf("worker 0.1 (pid %d): signal 99: invalid argument", os.Getpid())
	if len(log.lines) != 1 || !log.has(want) {
		t.Errorf("log: %q, want %q", log.lines, want)
	}
}

// The actions of the machine become messages, signals and answers.
func TestPerform(t *testing.T) {
	m, log, worker := inboxedProcess(t)
	m.hooks = newMailbox[func()]()
	k := key{0, 1}
	for _, c := range []struct {
		action action
		want   message
	}{
		{action{kind: actPing, worker: k}, message{kind: messagePing, payload: []byte{}}},
		{action{kind: actReopen, worker: k}, message{kind: messageReopen, payload: []byte{}}},
		{action{kind: actDrain, worker: k, grace: time.Second}, message{kind: messageDrain, payload: appendGrace(nil, time.Second)}},
		{action{kind: actDrain, worker: k, hasSuccessor: true}, message{kind: messageDrain, flags: flagSuccessor, payload: appendGrace(nil, 0)}},
	} {
		m.perform(c.action)
		got := heard(t, worker, c.want.kind)
		c.want.seq = got.seq
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.action, got, c.want)
		}
	}
	for kind, want := range map[actionKind]string{actTerm: "terminated", actKill: "killed", actDump: "quit"} {
		p := m.spawner.processes[k]
		p.child = ownChild{exec.Command("/bin/sleep", "60")}
		if err := p.child.(ownChild).command.Start(); err != nil {
			t.Fatal(err)
		}
		m.perform(action{kind: kind, worker: k})
		if err := p.child.(ownChild).command.Wait(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if len(log.lines) > 0 {
		t.Errorf("log: %q", log.lines)
	}
	m.perform(action{kind: actDumpSelf})
	if want := fmt.Sprintf("master (pid %d):\ngoroutine ", os.Getpid()); !log.has(want) || !log.has("TestPerform") {
		t.Errorf("the log has no %q", want)
	}
}

// The length of a worker's queue is looked up, and its progress only if connections wait.
func TestLook(t *testing.T) {
	m, _, _ := inboxedProcess(t)
	m.events, m.journal = newMailbox[event](), &Journal{dropped: 5}
	asked := 0
	m.config.Progress = func(slot, pid int) (uint64, bool) {
		asked++
		return uint64(100*slot + pid), true
	}
	ours, other := somePort(t), somePort(t)
	m.spawner.sockets = map[int][]*os.File{1: {ours, someFile(t), other}, 2: {}}
	m.snapshot.Store(&Status{Slots: []SlotStatus{{Slot: 2}, {Slot: 1}}})
	look := func(want event) {
		t.Helper()
		m.perform(action{kind: actLook, worker: key{1, 2}, pid: 7})
		want.kind, want.worker = evQueue, key{1, 2}
		if got := m.events.takeAll(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	look(event{})
	if asked != 0 {
		t.Error("Progress is called for an empty queue")
	}
	for _, f := range []*os.File{ours, other, other} {
		ln, err := net.FileListener(f)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		conn, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	look(event{number: 3, progress: 107, ready: true})
	st := m.Status()
	if st.Slots[0].Queue != 0 || st.Slots[1].Queue != 3 || st.LogDropped != 5 {
		t.Errorf("%+v", st)
	}
	if m.snapshot.Load().Slots[1].Queue != 0 {
		t.Error("the snapshot is changed")
	}
}

// Calls of Restart that wait get their own answer once, at the latest at the end.
func TestTickets(t *testing.T) {
	tickets := tickets{answers: make(map[int]chan error)}
	first, firstAnswer := tickets.take()
	second, secondAnswer := tickets.take()
	wrong := errors.New("wrong")
	tickets.answer(second, wrong)
	tickets.answer(second, nil)
	tickets.answer(9, nil)
	tickets.end(ErrStopping)
	tickets.answer(first, nil)
	third, thirdAnswer := tickets.take()
	tickets.answer(third, nil)
	for answer, want := range map[<-chan error]error{firstAnswer: ErrStopping, secondAnswer: wrong, thirdAnswer: ErrStopping} {
		if got := <-answer; got != want || len(answer) != 0 {
			t.Errorf("%v, want %v; %d more", got, want, len(answer))
		}
	}
	if first == 0 || second == first || third == second {
		t.Errorf("tickets %d, %d, %d", first, second, third)
	}
}

// A worker's process has its own attributes, and ends with the master unless they say
// otherwise.
func TestAttributesOfProcess(t *testing.T) {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	f := startFleet(t, func(c *Config) { c.Workers, c.SysProcAttr = 1, attributes }).ready()
	pid := f.serving(0).PID
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process %d is in group %d: %v", pid, group, err)
	}
	if attributes.Pdeathsig != 0 {
		t.Error("the caller's attributes are changed")
	}
	for given, want := range map[syscall.Signal]syscall.Signal{0: syscall.SIGTERM, syscall.SIGINT: syscall.SIGINT} {
		a := &syscall.SysProcAttr{Pdeathsig: given}
		if dieWithParent(a); a.Pdeathsig != want {
			t.Errorf("%v became %v, want %v", given, a.Pdeathsig, want)
		}
	}
}

// What a Start function returns without a process is an error.
func TestStartWithoutProcess(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		command *exec.Cmd
		err     error
		want    error
	}{{nil, nil, ErrNotStarted}, {&exec.Cmd{}, nil, ErrNotStarted}, {nil, refused, refused}, {&exec.Cmd{Process: &os.Process{}}, nil, nil}} {
		s := &spawner{master: &Master{config: Config{Start: func(Launch) (*exec.Cmd, error) { return c.command, c.err }}}}
		if started, err := s.fork(Launch{}, nil); started.(ownChild).command != c.command || err != c.want {
			t.Errorf("%v, %v; want %v", started, err, c.want)
		}
	}
}

// A worker that cannot get its CPUs is not started.
func TestImpossibleAffinity(t *testing.T) {
	s := &spawner{master: &Master{config: Config{
		Affinity: func(int) []int { return []int{1 << 20} },
		Start: func(Launch) (*exec.Cmd, error) {
			t.Error("it is started")
			return nil, nil
		},
	}}}
	if started, err := s.fork(Launch{}, nil); started.(ownChild).command != nil || err == nil {
		t.Errorf("%v, %v", started, err)
	}
}
