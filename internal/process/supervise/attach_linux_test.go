package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// place makes a descriptor of this process a duplicate of f, which its children inherit,
// as a master does for a worker. Numbers above 240 are not in use, unless this process has
// inherited them.
func place(t *testing.T, f *os.File, fd int) {
	t.Helper()
	if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
		t.Fatal(err)
	}
}

// somePort returns a listening socket.
func somePort(t *testing.T) *os.File {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// someFile returns an empty file.
func someFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "shared"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// isInherited reports whether children inherit fd.
func isInherited(t *testing.T, fd int) bool {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		t.Errorf("descriptor %d: %v", fd, err)
	}
	return flags&unix.FD_CLOEXEC == 0
}

// A worker takes over all descriptors that HELLO describes, and its children inherit
// none of them.
func TestAttachTakesOver(t *testing.T) {
	hello := layout{
		Slot: 1, Generation: 2, Listeners: 2, Control: 2, Lifeline: 3, Shared: 2,
		Inboxes: []int{0, 1}, Configuration: []byte("settings"),
	}
	master := placeControl(t, 253, helloOf(hello))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	pair, err := newInboxPair()
	if err != nil {
		t.Fatal(err)
	}
	defer pair.close()
	shared := someFile(t)
	files := []*os.File{251: somePort(t), 252: somePort(t), 254: read, 255: shared, 256: shared, 257: pair.rx, 258: pair.tx, 259: pair.tx}
	for fd, f := range files {
		if f != nil {
			place(t, f, fd)
		}
	}
	log := &logLines{}
	w, err := Attach(AttachOptions{Logger: log, NoSignals: true, OrphanGrace: 1000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for fd := 251; fd < 260; fd++ {
		if isInherited(t, fd) {
			t.Errorf("children inherit descriptor %d", fd)
		}
	}
	heard(t, master, messageAck)
	if _, isJournal := w.options.Logger.(*Journal); !isJournal {
		t.Error("a log without a reader would block the worker")
	}
	if w.IsBare() || w.Slot() != 1 || w.Generation() != 2 || string(w.Configuration()) != "settings" || w.Slots() != 2 {
		t.Errorf("%+v, %d slots", w.layout, w.Slots())
	}
	if len(w.Listeners()) != 2 || int(w.Listeners()[0].Fd()) != 251 || int(w.Listeners()[1].Fd()) != 252 {
		t.Errorf("listeners: %v", w.Listeners())
	}
	if len(w.Shared()) != 2 || int(w.Shared()[0].Fd()) != 255 || int(w.Shared()[1].Fd()) != 256 {
		t.Errorf("shared files: %v", w.Shared())
	}
	if peers := *w.inboxes.peers.Load(); w.inboxes.waiting[1] != 257 || !slices.Equal(peers, []int{258, 259}) {
		t.Errorf("inboxes: %v, %v", w.inboxes.waiting, peers)
	}
	write.Close() // the master dies
	select {
	case <-w.Orphaned():
	case <-time.After(patience):
		t.Error("it does not know that the master has died")
	}
	want := fmt.Sprintf("worker 1.2 (pid %d): the master is gone: 1000h0m0s to finish", os.Getpid())
	until(t, "the log says so", func() bool { return log.has(want) })
	master.close()
	closeFiles(append(append(w.Listeners(), w.Shared()...), w.lifeline))
	w.StopReceiving(false)
	closeAll(*w.inboxes.peers.Load())
	w.link.close()
}

// A worker whose control socket ends is an orphan, even without a lifeline.
func TestEndOfControlSocket(t *testing.T) {
	w, master := deafWorker(t)
	w.options.OrphanGrace = 1000 * time.Hour
	go w.listen()
	master.close()
	select {
	case <-w.Orphaned():
	case <-time.After(patience):
		t.Error("it does not know that the master has died")
	}
}

// A layout whose first file would be one of the standard files is refused. Descriptors
// that are no pipe and no inbox are left alone.
func TestAttachToFewFiles(t *testing.T) {
	for control, isRight := range map[int]bool{250: true, 251: false} {
		master := placeControl(t, 253, helloOf(layout{Generation: 1, Control: control, Lifeline: control + 1, Shared: 1}))
		place(t, someFile(t), 254)
		w := &Worker{options: AttachOptions{Logger: noLogger{}, NoSignals: true}, orders: newOrderQueue(), orphaned: make(chan struct{})}
		w.orphan.Do(func() {}) // here the end of the link does not mean the master's death
		if err := w.attach(); (err == nil) != isRight {
			t.Errorf("control socket 253 as file %d: %v", control, err)
		}
		if w.lifeline != nil || w.shared != nil || !isInherited(t, 254) {
			t.Errorf("%v and %v", w.lifeline, w.shared)
		}
		unix.Close(254)
		master.close()
		if isRight {
			w.link.close()
		} else {
			unix.Close(253)
		}
	}
}

// A worker does not attach to a master of another version.
func TestAttachToOtherVersion(t *testing.T) {
	master := placeControl(t, 255)
	packet := appendMessage(nil, helloOf(layout{Generation: 1, Lifeline: 1}))
	packet[2]++
	if err := unix.Sendmsg(int(master.file.Fd()), packet, nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(AttachOptions{NoSignals: true}); !errors.Is(err, errVersion) {
		t.Errorf("%v", err)
	}
	ShieldInherited() // leaves that to Attach
}

// Children do not inherit what the master has passed, before Attach. All other files are
// left alone.
func TestShieldInherited(t *testing.T) {
	for _, c := range []struct {
		name        string
		hello       layout
		first, last int // that are shielded
		isNoPipe    bool
	}{
		{"all files", layout{Generation: 1, Listeners: 2, Control: 2, Lifeline: 3, Shared: 1, Inboxes: []int{0}}, 250, 256, false},
		{"no inboxes", layout{Generation: 1, Listeners: 2, Control: 2, Lifeline: 3, Shared: 1}, 250, 254, false},
		{"no shared files", layout{Generation: 1, Listeners: 1, Control: 1, Lifeline: 2}, 251, 253, false},
		{"no lifeline", layout{Generation: 1, Listeners: 1, Control: 1, Lifeline: 2, Shared: 5}, 251, 252, true},
		{"a layout that is not sound", layout{Listeners: 1, Control: 1, Lifeline: 2}, 300, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			placeControl(t, 252, helloOf(c.hello))
			unix.FcntlInt(252, unix.F_SETFD, 0)
			for fd := 249; fd <= 258; fd++ {
				switch {
				case fd == 252:
					continue
				case fd == 253 && !c.isNoPipe:
					place(t, somePipe(t), fd)
				default:
					place(t, someFile(t), fd)
				}
				defer unix.Close(fd)
			}
			ShieldInherited()
			for fd := 249; fd <= 258; fd++ {
				if want := fd < c.first || fd > c.last; isInherited(t, fd) != want {
					t.Errorf("children inherit descriptor %d: %v", fd, !want)
				}
			}
		})
	}
}

// A worker without a master has a listener if descriptor 3 is one, and its children do
// not inherit that, even before Attach.
func TestBareWorker(t *testing.T) {
	for name, file := range map[string]*os.File{"socket:": somePort(t), "shared": someFile(t)} {
		command := exec.Command("/proc/self/exe")
		command.Env = append(os.Environ(), roleVariable+"=bare")
		command.ExtraFiles = []*os.File{file}
		out, err := command.Output()
		var got report
		if err != nil || json.Unmarshal(out, &got) != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		isInherited := slices.ContainsFunc(got.Descriptors, func(d string) bool { return strings.Contains(d, name) })
		if isListener := name == "socket:"; isInherited == isListener || got.HasListener != isListener {
			t.Errorf("%s: %+v", name, got)
		}
	}
	t.Setenv("SUPERVISE_TEST", "value")
	if value, found := TakeEnv("SUPERVISE_TEST"); value != "value" || !found {
		t.Errorf("%q, %v", value, found)
	}
	if value, found := TakeEnv("SUPERVISE_TEST"); value != "" || found {
		t.Errorf("taken twice: %q", value)
	}
	w := &Worker{bare: true, orders: newOrderQueue(), orphaned: make(chan struct{})}
	if err := w.Recycle("why"); err != ErrDetached {
		t.Errorf("Recycle: %v", err)
	}
	if err := errors.Join(w.Ready(), w.Drained(DrainStats{}), w.Fatal("listen", "in use"), Order{}.Ack()); err != nil {
		t.Error(err)
	}
	w.terminate(false)
	if o := <-w.Orders(); o.Kind != OrderDrain || o.Grace != 0 {
		t.Errorf("%+v", o)
	}
}

// A process that the kernel has named after a descriptor gets the program's name. Others
// keep theirs.
func TestRestoreName(t *testing.T) {
	const file = "/proc/self/comm"
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(file, bytes.TrimSpace(old), 0)
	want := filepath.Base(os.Args[0])
	for name, want := range map[string]string{"9": want[:min(len(want), 15)], "exe": want[:min(len(want), 15)], "custom": "custom"} {
		if err := os.WriteFile(file, []byte(name), 0); err != nil {
			t.Fatal(err)
		}
		RestoreName()
		if got, err := os.ReadFile(file); err != nil || string(got) != want+"\n" {
			t.Errorf("%q became %q, %v", name, got, err)
		}
	}
}

// SIGUSR1 is an order. The second SIGTERM does not wait for the master any more.
func TestHeedSignals(t *testing.T) {
	w, master := deafWorker(t)
	terms, reopens := make(chan os.Signal), make(chan os.Signal)
	go w.heedSignals(terms, reopens)
	want := func(kind OrderKind) {
		t.Helper()
		select {
		case o := <-w.Orders():
			if o.Kind != kind {
				t.Errorf("%+v, want %v", o, kind)
			}
		case <-time.After(patience):
			t.Errorf("no order to %v", kind)
		}
	}
	reopens <- syscall.SIGUSR1
	want(OrderReopen)
	terms <- syscall.SIGTERM
	heard(t, master, messageRecycle)
	reopens <- syscall.SIGUSR1
	want(OrderReopen) // and nothing before it
	terms <- syscall.SIGTERM
	want(OrderDrain)
}

// What a worker says reaches the master. Texts are bounded.
func TestReports(t *testing.T) {
	w, master := deafWorker(t)
	w.layout.Slot = 3
	long := strings.Repeat("x", 4095) + "é"
	if err := errors.Join(w.Ready(), w.Drained(DrainStats{1, 2, 3}), w.Fatal("listen", long), w.Recycle(long[:4095])); err != nil {
		t.Fatal(err)
	}
	for _, want := range []message{
		{kind: messageReady, payload: []byte{}},
		{kind: messageDrained, payload: []byte(`{"Finished":1,"HandedOver":2,"Cut":3}`)},
		{kind: messageFatal, payload: []byte(`{"class":"listen","text":"` + long[:4095] + `"}`)},
		{kind: messageRecycle, payload: []byte(long[:4095])},
	} {
		if got := heard(t, master, want.kind); got.slot != 3 || !bytes.Equal(got.payload, want.payload) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if got := clip(long[:4095] + "xy"); got != long[:4095]+"x" {
		t.Errorf("%d bytes", len(got))
	}
}

// Names of orders and phases, which appear in logs and status pages.
func TestNames(t *testing.T) {
	var orders, phases []string
	for k := range OrderQuit + 2 {
		orders = append(orders, k.String())
	}
	for p := range PhaseCrashed + 2 {
		phases = append(phases, p.String())
	}
	if got := strings.Join(orders, " "); got != "none drain adopt release reopen quit unknown" {
		t.Errorf("orders: %s", got)
	}
	if got := strings.Join(phases, " "); got != "spawned ready suspect hung draining killed exited crashed unknown" {
		t.Errorf("phases: %s", got)
	}
}
