package supervise

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// If descriptors run out, New fails at any step and leaves none open. With a low limit
// on their numbers the binary gets a low one.
func TestNewWithoutDescriptors(t *testing.T) {
	for _, c := range []struct {
		limit   uint64
		process string
	}{{200, strconv.Itoa(os.Getpid())}, {512, "self"}} {
		const needs = 6 // the binary, the lifeline, a socket and an inbox, whose ends are made last
		for free := 0; free <= needs; free++ {
			nettest.WithFree(t, c.limit, free, func() {
				m, err := New(Config{Workers: 1, Inboxes: true, Sockets: func(int) ([]*os.File, error) {
					f, err := os.Open(os.DevNull)
					return []*os.File{f}, err
				}})
				if free < needs {
					if m != nil || !errors.Is(err, unix.EMFILE) {
						t.Errorf("%d descriptors: %v, %v", free, m, err)
					}
					return
				}
				if err != nil {
					t.Errorf("%d descriptors: %v", free, err)
					return
				}
				defer m.Close()
				if want := fmt.Sprintf("/proc/%s/fd/%d", c.process, m.config.binary.fd); m.config.binary.path() != want {
					t.Errorf("the binary is %s, want %s", m.config.binary.path(), want)
				}
				self, _ := os.Stat("/proc/self/exe")
				if got, err := os.Stat(m.config.binary.path()); err != nil || !os.SameFile(self, got) {
					t.Errorf("%s is another file: %v", m.config.binary.path(), err)
				}
			})
		}
	}
}

// The binary's number is above those of the files that a worker inherits.
func TestNumberOfTheBinary(t *testing.T) {
	for inherited, want := range map[int]int{100: 256, 200: 400} {
		if _, err := unix.FcntlInt(uintptr(want), unix.F_GETFD, 0); err == nil {
			t.Skipf("descriptor %d is in use", want)
		}
		e, err := openExecutable(inherited)
		if err != nil {
			t.Fatal(err)
		}
		if e.fd != want {
			t.Errorf("with %d files: %d, want %d", inherited, e.fd, want)
		}
		for range 2 {
			e.close()
		}
		if _, err := unix.FcntlInt(uintptr(want), unix.F_GETFD, 0); err == nil || e.fd != -1 {
			t.Errorf("it is open: %d", e.fd)
		}
	}
}

// A worker that cannot be started leaves no descriptor open.
func TestLaunchWithoutDescriptors(t *testing.T) {
	m, err := New(Config{Workers: 1, Sockets: noSockets, Env: []string{roleVariable + "=idle"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	isStarted := false
	for free := 0; !isStarted && free < 20; free++ {
		nettest.WithFree(t, 200, free, func() {
			p, err := m.spawner.launch(job{key: key{0, 1}, version: &version{binary: m.config.binary}})
			if err != nil {
				if p != nil || !errors.Is(err, unix.EMFILE) {
					t.Errorf("%d descriptors: %v, %v", free, p, err)
				}
				return
			}
			isStarted = true
			p.child.(ownChild).command.Process.Kill()
			p.child.(ownChild).command.Wait()
			p.link.close()
		})
	}
	if !isStarted {
		t.Error("it is never started")
	}
}

// If a stream between workers cannot be made, the worker that asked learns it.
func TestMeetWithoutDescriptors(t *testing.T) {
	m := newMeeting()
	first, second := m.add(t), m.add(t)
	if err := first.Meet(first.take); err != nil {
		t.Fatal(err)
	}
	nettest.WithFree(t, 512, 1, func() {
		if err := second.Meet(second.take); err != errMeet {
			t.Errorf("%v", err)
		}
	})
	if log := m.logged(); len(log) != 1 || !strings.Contains(log[0], "worker 1.1 cannot be connected with worker 0.1: too many open files") {
		t.Errorf("log %q", log)
	}
	if first.count() != 0 || second.count() != 0 {
		t.Errorf("%d and %d streams", first.count(), second.count())
	}
}

// A worker that has no room for the descriptors of a message does without the message, and says so.
// What follows arrives. A worker whose streams are lost is told that it is not connected.
func TestMessagesWithoutDescriptors(t *testing.T) {
	master, theirs := linkPair(t)
	log := &logLines{}
	w := &Worker{orphaned: make(chan struct{}), options: AttachOptions{Logger: log}, attachment: attachment{link: theirs, pings: newProbes()}}
	w.orders = newOrderQueue()
	w.orphan.Do(func() {})
	go w.listen()
	pipe := somePipe(t)
	send := func(m message, files ...*os.File) {
		t.Helper()
		if err := master.send(m, files); err != nil {
			t.Error(err)
		}
	}
	nettest.WithFree(t, 512, 1, func() {
		send(message{kind: messageAdopt, slot: 7}, pipe, pipe)
		send(message{kind: messageRelease, slot: 7})
		if o := <-w.orders.out; o.Kind != OrderRelease || o.Slot != 7 {
			t.Errorf("%+v", o)
		}
		go func() {
			master.receive()
			send(message{kind: messageMeet}, pipe, pipe)
			send(message{kind: messageMeet, flags: flagAnswer})
		}()
		if err := w.Meet(func(f *os.File) { f.Close() }); err != errMeet {
			t.Errorf("%v", err)
		}
	})
	for i, kind := range []messageType{messageAdopt, messageMeet} {
		want := fmt.Sprintf("message %d of the master came without its descriptors: too many open files", kind)
		if len(log.lines) != 2 || !strings.Contains(log.lines[i], want) {
			t.Errorf("log %q, want %q", log.lines, want)
		}
	}
}
