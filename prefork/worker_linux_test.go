package prefork

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/mesh"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/shared"
)

// A fakeLink is a worker's link in a test, which plays the master. It notes what the
// worker tells it.
type fakeLink struct {
	bare                    bool
	slot, generation, slots int
	configuration           string
	listeners, memory       []*os.File
	stream                  *os.File // to another worker
	orders                  chan supervise.Order
	orphaned                chan struct{}
	orphanGrace             time.Duration
	err                     error // of Drained and Meet
	fatalErr                error // of Fatal
	post                    func(slot, fd int, parcel []byte, wait time.Duration) error

	mu    sync.Mutex
	notes []string
}

// newFakeLink returns the link of worker 3.7.
func newFakeLink() *fakeLink {
	return &fakeLink{
		slot: 3, generation: 7, configuration: "text", orphanGrace: 9 * time.Second,
		orders: make(chan supervise.Order), orphaned: make(chan struct{}),
	}
}

func (l *fakeLink) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// noted returns the notes since the last call.
func (l *fakeLink) noted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Join(l.notes, ", ")
	l.notes = nil
	return all
}

func (l *fakeLink) IsBare() bool                         { return l.bare }
func (l *fakeLink) Slot() int                            { return l.slot }
func (l *fakeLink) Generation() int                      { return l.generation }
func (l *fakeLink) Slots() int                           { return l.slots }
func (l *fakeLink) Configuration() []byte                { return []byte(l.configuration) }
func (l *fakeLink) Listeners() []*os.File                { return l.listeners }
func (l *fakeLink) Packets() ([]*os.File, int, []byte)   { return nil, 0, nil }
func (l *fakeLink) Shared() []*os.File                   { return l.memory }
func (l *fakeLink) Orders() <-chan supervise.Order       { return l.orders }
func (l *fakeLink) Orphaned() <-chan struct{}            { return l.orphaned }
func (l *fakeLink) OrphanGrace() time.Duration           { return l.orphanGrace }
func (l *fakeLink) Ready() error                         { l.note("ready"); return nil }
func (l *fakeLink) Receive(func(fd int, parcel []byte))  { l.note("receive") }
func (l *fakeLink) StopReceiving(empty bool)             { l.note("stop receiving %v", empty) }
func (l *fakeLink) TakeBack()                            { l.note("take back") }
func (l *fakeLink) Drained(s supervise.DrainStats) error { l.note("drained %+v", s); return l.err }
func (l *fakeLink) Fatal(class, text string) error {
	l.note("fatal %s: %s", class, text)
	return l.fatalErr
}
func (l *fakeLink) Meet(take func(*os.File)) error {
	l.note("meet")
	if l.stream != nil {
		take(l.stream)
	}
	return l.err
}
func (l *fakeLink) Post(slot, fd int, parcel []byte, wait time.Duration) error {
	return l.post(slot, fd, parcel, wait)
}

// listenerFile returns a listening socket and its address.
func listenerFile(t *testing.T) (*os.File, string) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := listen.File(ln)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, ln.Addr().String()
}

// resetPage makes this process no worker after a test in which it was one.
func resetPage(t *testing.T) *shared.Page {
	page := shared.Default().Page()
	was := page.Get(shared.ProcessState)
	t.Cleanup(func() {
		for _, f := range []shared.Field{shared.Slot, shared.Generation, shared.Inbound, shared.Cut, shared.StateKinds, shared.Heartbeat} {
			page.Set(f, 0)
		}
		page.Set(shared.ProcessState, was)
	})
	return page
}

// A beginning is how a worker starts, what it tells the master, and what it returns.
type beginning struct {
	name   string
	change func(*Prefork, *fakeLink)
	serve  func() error // nil: until the end
	took   time.Duration
	want   string
	err    error
}

func TestWorkerStarts(t *testing.T) {
	page := resetPage(t)
	bad := errors.New("bad")
	const settle = 10 * time.Millisecond
	for _, c := range []beginning{
		{"in order", func(*Prefork, *fakeLink) {}, nil, settle, "start {3 7 text}, ready", nil},
		{"with an inbox", func(p *Prefork, l *fakeLink) { l.slots, p.server = 1, &sluice.Server{} }, nil, settle, "start {3 7 text}, receive, ready", nil},
		{"with a server, without an inbox", func(p *Prefork, l *fakeLink) { p.server = &sluice.Server{} }, nil, settle, "start {3 7 text}, ready", nil},
		{"bare", func(_ *Prefork, l *fakeLink) { l.bare = true }, nil, settle, "start {-1 0 }, ready", nil},
		{"no listener", func(_ *Prefork, l *fakeLink) { l.listeners = nil }, nil, 0, "fatal listen: " + errNoListener.Error(), nil},
		{"a hook", func(p *Prefork, _ *fakeLink) { p.OnWorkerStart = func(WorkerInfo) error { return bad } }, nil, 0, "fatal config: bad", nil},
		{"a hook of a bare worker", func(p *Prefork, l *fakeLink) { l.bare, p.OnWorkerStart = true, func(WorkerInfo) error { return bad } }, nil, 0, "", bad},
		{"a hook without a master", func(p *Prefork, l *fakeLink) {
			l.fatalErr, p.OnWorkerStart = bad, func(WorkerInfo) error { return errNoListener }
		}, nil, 0,
			"fatal config: " + errNoListener.Error(), errNoListener},
		{"no backplane", func(p *Prefork, l *fakeLink) { p.Backplane("x").Subscribe(ignorer{}); l.err = supervise.ErrDetached }, nil, 0,
			"start {3 7 text}, meet, fatal backplane: " + ErrNoBackplane.Error(), nil},
		{"the others cannot be met", func(p *Prefork, l *fakeLink) { p.Backplane("x").Subscribe(ignorer{}); l.err = bad }, nil, 0,
			"start {3 7 text}, meet, fatal backplane: bad", nil},
		{"serving fails", func(*Prefork, *fakeLink) {}, func() error { return bad }, 0, "start {3 7 text}, fatal serve: bad", nil},
		{"serving ends", func(*Prefork, *fakeLink) {}, func() error { return nil }, 0, "start {3 7 text}, ready", nil},
		{"serving fails in a bare worker", func(_ *Prefork, l *fakeLink) { l.bare = true }, func() error { return bad }, 0, "start {-1 0 }, ready", bad},
	} {
		page.Set(shared.ProcessState, uint64(shared.Starting))
		f, addr := listenerFile(t)
		synctest.Test(t, func(t *testing.T) { c.run(t, f, addr, page) })
		if !strings.HasSuffix(c.want, "ready") {
			continue // the process ends
		}
		ln, err := net.Listen("tcp4", addr)
		if err != nil {
			t.Fatalf("%s: it still listens: %v", c.name, err)
		}
		ln.Close()
	}
}

// run starts a worker and checks it.
func (c *beginning) run(t *testing.T, f *os.File, addr string, page *shared.Page) {
	l, p := newFakeLink(), &Prefork{Logger: quiet()}
	l.listeners = []*os.File{f}
	p.OnWorkerStart = func(i WorkerInfo) error { l.note("start {%d %d %s}", i.Slot, i.Generation, i.Config); return nil }
	c.change(p, l)
	over := make(chan struct{})
	serve := func(net.Listener) error {
		if c.serve != nil {
			return c.serve()
		}
		<-over
		return nil
	}
	began := time.Now()
	returned := make(chan error)
	go func() { returned <- p.workFor(l, "", serve, false) }()
	if c.serve == nil && strings.HasSuffix(c.want, "ready") {
		l.orders <- supervise.Order{Kind: supervise.OrderQuit} // it takes orders once it is ready
	}
	err := <-returned
	if took := time.Since(began); took != c.took || err != c.err {
		t.Errorf("%s: returned %v after %v, want %v after %v", c.name, err, took, c.err, c.took)
	}
	if got := l.noted(); got != c.want {
		t.Errorf("%s: %q, want %q", c.name, got, c.want)
	}
	if isReady := shared.State(page.Get(shared.ProcessState)) == shared.Ready; isReady != strings.HasSuffix(c.want, "ready") {
		t.Errorf("%s: ready on the scoreboard: %v", c.name, isReady)
	}
	if s := p.state.Load(); len(l.listeners) > 0 && (len(s.addrs) != 1 || s.addrs[0].String() != addr) {
		t.Errorf("%s: state %+v", c.name, s)
	}
	if strings.HasSuffix(c.want, "ready") && !l.bare && (page.Get(shared.Slot) != 3 || page.Get(shared.Generation) != 7) {
		t.Errorf("%s: worker %d.%d on the scoreboard", c.name, page.Get(shared.Slot), page.Get(shared.Generation))
	}
	close(over)
	close(l.orphaned) // OnMasterDeath is waited for
}

// A worker passes connections on if it has siblings, its connections are not of TLS, and
// the program does not decide. Its server counts on the scoreboard.
func TestWorkerAppears(t *testing.T) {
	page := resetPage(t)
	own := func(int) bool { return true }
	for _, c := range []struct {
		slots       int
		isTLS, owns bool
		want        bool
	}{{slots: 2, want: true}, {slots: 1}, {slots: 2, isTLS: true}, {slots: 0}, {slots: 1, owns: true, want: true}} {
		s := &sluice.Server{}
		w := &worker{prefork: &Prefork{server: s}, link: &fakeLink{slots: c.slots}, isTLS: c.isTLS, stop: make(chan struct{})}
		if c.owns {
			s.Control().Divert = own
		}
		w.appear(WorkerInfo{Slot: 1, Generation: 2})
		close(w.stop)
		if got := s.Control().Divert != nil; got != c.want || s.Control().Meter == nil || page.Get(shared.Generation) != 2 {
			t.Errorf("%+v: passes on: %v", c, got)
		}
		if c.owns && !s.Control().Divert(0) {
			t.Error("the program's Divert was replaced")
		}
	}
	until(t, "the scoreboard is not written any more", func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "prefork.(*board).write(")
	})
	page.Set(shared.Heartbeat, 0)
	w := &worker{prefork: &Prefork{}, link: &fakeLink{}, stop: make(chan struct{})}
	w.appear(WorkerInfo{Slot: -1})
	until(t, "a worker without a server writes its heartbeat", func() bool { return page.Get(shared.Heartbeat) > 0 })
	close(w.stop)
}

// A worker carries out orders while it serves.
func TestOrders(t *testing.T) {
	log := make(logLine, 100)
	own, _ := net.Listen("tcp4", "127.0.0.1:0")
	file, addr := listenerFile(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	reopened := 0
	ended := make(chan net.Listener, 10)
	l := newFakeLink()
	w := &worker{
		prefork: &Prefork{Logger: log, OnReopen: func() error { reopened++; return nil }}, link: l,
		own: []net.Listener{own}, adopted: make(map[int][]net.Listener), results: make(chan result), released: make(map[net.Listener]bool),
		serve: func(ln net.Listener) error {
			_, err := ln.Accept()
			ended <- ln
			return err
		},
	}
	returned := make(chan error)
	go func() { returned <- w.run() }()
	l.orders <- supervise.Order{Kind: supervise.OrderAdopt, Slot: 5, Files: []*os.File{null, file}}
	if line := <-log; !strings.Contains(line, "worker 3.7 (pid "+itoa(os.Getpid())+"): cannot take the socket of slot 5 over: ") {
		t.Errorf("log %q", line)
	}
	l.orders <- supervise.Order{Kind: supervise.OrderRelease, Slot: 4}
	l.orders <- supervise.Order{Kind: supervise.OrderReopen} // which leaves the sockets alone
	if n := len(w.adopted[5]); n != 1 {
		t.Errorf("%d sockets adopted", n)
	}
	l.orders <- supervise.Order{Kind: supervise.OrderRelease, Slot: 5}
	if ln := <-ended; ln.Addr().String() != addr {
		t.Errorf("%v ended", ln.Addr())
	}
	l.orders <- supervise.Order{Kind: supervise.OrderReopen}
	if len(w.adopted) > 0 {
		t.Errorf("adopted: %v", w.adopted)
	}
	w.serveOn(own)
	l.orders <- supervise.Order{Kind: supervise.OrderQuit}
	if err := <-returned; err != nil || reopened != 2 {
		t.Errorf("it returned %v, and reopened %d times", err, reopened)
	}
	if ln := <-ended; ln != own {
		t.Errorf("%v ended", ln.Addr())
	}
	if <-w.results; len(log) > 0 {
		t.Errorf("log %q", <-log)
	}
	own.Close()
	w.released = map[net.Listener]bool{}
	w.close(own)
	if line := <-log; !strings.Contains(line, "closing "+own.Addr().String()+": ") {
		t.Errorf("log %q", line)
	}
}

// OnMasterDeath is called once the master is gone, and its end is known.
func TestMourning(t *testing.T) {
	calls := 0
	for _, death := range []func(){nil, func() { calls++ }} {
		w := &worker{prefork: &Prefork{OnMasterDeath: death}, link: newFakeLink(), mourned: make(chan struct{})}
		go w.mourn()
		select {
		case <-w.mourned:
			t.Error("it mourns a living master")
		default:
		}
		close(w.link.(*fakeLink).orphaned)
		<-w.mourned
	}
	if calls != 1 {
		t.Errorf("OnMasterDeath was called %d times", calls)
	}
	w := &worker{prefork: &Prefork{}, link: &fakeLink{bare: true}, mourned: make(chan struct{})}
	w.mourn() // it has no master to tell
	<-w.mourned
}

// A worker answers the master's probes if its server does.
func TestProbe(t *testing.T) {
	if err := (&Prefork{}).probe(); err != nil {
		t.Errorf("without a server: %v", err)
	}
	if err := New(&sluice.Server{}).probe(); err != nil {
		t.Errorf("a server: %v", err)
	}
}

// A worker without the master's segment gets all messages. Streams that end badly are logged.
func TestMeeting(t *testing.T) {
	if err := (noBackplane{}).Subscribe(nil); err != ErrNoBackplane {
		t.Errorf("Subscribe without a backplane: %v", err)
	}
	log := make(logLine, 10)
	l := newFakeLink()
	w := &worker{prefork: &Prefork{Logger: log}, link: l}
	if w.interests() != nil {
		t.Error("interests without a segment")
	}
	if w.hasSegment = true; w.interests() == nil {
		t.Error("no interests in a segment")
	}
	name := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(name, bytes.Repeat([]byte{0xff}, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.stream, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
	if err := w.prefork.Backplane("x").Subscribe(ignorer{}); err != nil {
		t.Fatal(err)
	}
	if err := w.meet(WorkerInfo{Slot: 1, Generation: 1}); err != nil {
		t.Fatal(err)
	}
	if line := <-log; !strings.Contains(line, "a stream to another worker ends: ") {
		t.Errorf("log %q", line)
	}
	w.part()
}

// An ignorer is a receiver of a backplane.
type ignorer struct{}

func (ignorer) Received(string, []byte) {}
func (ignorer) Gap(string)              {}

// A worker that ends waits a tenth of a second for others that read nothing.
func TestParting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		w := &worker{prefork: &Prefork{Logger: quiet()}}
		plane := w.prefork.Backplane("x")
		if err := plane.Subscribe(ignorer{}); err != nil {
			t.Fatal(err)
		}
		w.prefork.mesh.Start(mesh.Options{Meet: func(take func(mesh.Conn)) error { take(ours); return nil }})
		began := time.Now()
		w.part()
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if _, err := theirs.Read(make([]byte, 1)); err == nil {
			t.Error("the stream is open")
		}
		if err := w.prefork.Backplane("y").Subscribe(ignorer{}); err != mesh.ErrClosed {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A test that sets the marker in a process that was started with a socket serves that.
func TestInheritedListener(t *testing.T) {
	file, addr := listenerFile(t)
	for _, c := range []struct {
		files []*os.File
		want  string
	}{{[]*os.File{file}, addr + " <nil>"}, {nil, "no listener"}} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"=marked")
		cmd.ExtraFiles = c.files
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%d files: %q, %v", len(c.files), out, err)
		}
	}
}

// OnMasterDeath is called in workers that no master controls, too.
func TestDeathOfBareWorkersMaster(t *testing.T) {
	death := filepath.Join(t.TempDir(), "death")
	f := start(t, setup{Workers: 1, BareProducer: true, Death: death}, true)
	worker := f.pids()[0]
	if _, err := os.Stat(death); err == nil {
		t.Error("it was called already")
	}
	f.signal(os.Kill)
	f.wait()
	until(t, "OnMasterDeath is called", func() bool {
		_, err := os.Stat(death)
		return err == nil
	})
	nettest.Signal(t, worker, syscall.SIGKILL)
}
