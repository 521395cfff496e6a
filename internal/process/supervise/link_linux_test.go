package supervise

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// linkPair returns two connected links.
func linkPair(t *testing.T) (ours, theirs *link) {
	t.Helper()
	ours, end, err := newLinkPair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(end.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	theirs = newLink(inherited(fd, "control"))
	t.Cleanup(ours.close)
	t.Cleanup(theirs.close)
	return ours, theirs
}

// openFiles counts this process's descriptors of some files. It does not count
// others, because the garbage collector may close files of earlier tests at any time.
func openFiles(t *testing.T, files ...*os.File) (n int) {
	t.Helper()
	target := func(fd string) string {
		name, _ := os.Readlink("/proc/self/fd/" + fd) // "": it was closed meanwhile
		return name
	}
	wanted := make(map[string]bool)
	for _, f := range files {
		wanted[target(strconv.Itoa(int(f.Fd())))] = true
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if wanted[target(e.Name())] {
			n++
		}
	}
	return n
}

// I21: descriptors arrive with the messages that carry them. With all other packets
// they are closed.
func TestLinkDescriptors(t *testing.T) {
	ours, theirs := linkPair(t)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := openFiles(t, file)
	raw := func(packet []byte, files int) {
		t.Helper()
		var descriptors []int
		for range files {
			descriptors = append(descriptors, int(file.Fd()))
		}
		if err := unix.Sendmsg(int(ours.file.Fd()), packet, unix.UnixRights(descriptors...), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	raw(appendMessage(nil, message{kind: messageRelease}), 2) // this kind has none
	raw([]byte("no message at all"), 1)
	raw(appendMessage(nil, message{kind: messageAdopt, payload: make([]byte, maxPayload)})[:headSize+9], 1) // cut
	raw(make([]byte, headSize+maxPayload+1), 1)                                                             // does not fit
	raw(nil, 1)                                                                                             // empty
	raw(appendMessage(nil, message{kind: messageAdopt}), maxDescriptors+9)                                  // too many
	if err := ours.send(message{kind: messageAdopt, slot: 4}, []*os.File{file, file}); err != nil {
		t.Fatal(err)
	}
	m, got, err := theirs.receive()
	if err != nil || m.kind != messageRelease || got != nil {
		t.Fatalf("%+v, %v, %v", m, got, err)
	}
	m, got, err = theirs.receive()
	if err != nil || m.kind != messageAdopt || m.slot != 4 || len(got) != 2 || !isListener(got[0]) {
		t.Fatalf("%+v, %v, %v", m, got, err)
	}
	for _, fd := range got {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d would be inherited: %#x, %v", fd, flags, err)
		}
	}
	closeAll(got)
	if after := openFiles(t, file); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// The last messages of a process are received after its end.
func TestLinkHangUp(t *testing.T) {
	ours, theirs := linkPair(t)
	for range 3 {
		if err := theirs.send(message{kind: messageReady}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ours.hangUp()
	for i := range 3 {
		if m, _, err := ours.receive(); err != nil || m.kind != messageReady || int(m.seq) != i+1 {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if m, _, err := ours.receive(); err != unix.EAGAIN {
		t.Fatalf("%+v, %v", m, err)
	}
	ours.close()
	if m, _, err := ours.receive(); err == nil || err == unix.EAGAIN || err == io.EOF {
		t.Errorf("%+v, %v", m, err)
	}
}

// hangUp wakes a waiting receiver, and so does the end of the other side.
func TestLinkEnds(t *testing.T) {
	for name, end := range map[string]func(ours, theirs *link){
		"hang up": func(ours, _ *link) { ours.hangUp() },
		"close":   func(_, theirs *link) { theirs.close() },
	} {
		ours, theirs := linkPair(t)
		received := make(chan error, 1)
		go func() {
			_, _, err := ours.receive()
			received <- err
		}()
		end(ours, theirs)
		select {
		case err := <-received:
			if err == nil {
				t.Errorf("%s: a message", name)
			}
		case <-time.After(patience):
			t.Errorf("%s: receive waits on", name)
		}
	}
}

// A full socket is an error, not a wait.
func TestLinkFull(t *testing.T) {
	ours, _ := linkPair(t)
	for range 10000 {
		if err := ours.send(message{kind: messagePing, payload: make([]byte, 4<<10)}, nil); err != nil {
			if err != errLinkFull {
				t.Errorf("%v", err)
			}
			return
		}
	}
	t.Error("never full")
}

// Descriptors are sent when fewer of the user's are in flight. If they stay, the wait ends.
func TestLinkInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := linkPair(t)
		file := someFile(t)
		nettest.WithFlight(t, 64, func(release func()) {
			began := time.Now()
			if err := ours.send(message{kind: messageAdopt}, []*os.File{file}); err != unix.ETOOMANYREFS || time.Since(began) != flightPatience {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			time.AfterFunc(flightPatience/2, release)
			if err := ours.send(message{kind: messageInbox}, []*os.File{file}); err != nil {
				t.Error(err)
			}
		})
		m, descriptors, err := theirs.receive()
		if err != nil || m.kind != messageInbox || len(descriptors) != 1 {
			t.Errorf("%+v, %d descriptors, %v", m, len(descriptors), err)
		}
		closeAll(descriptors)
	})
}

// All messages of a process are handled before its end, however many they are.
func TestEndComesLast(t *testing.T) {
	m, err := New(Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ours, theirs := linkPair(t)
	p := &process{key: key{0, 1}, child: ownChild{exec.Command("/bin/true")}, link: ours}
	if err := p.child.(ownChild).command.Start(); err != nil {
		t.Fatal(err)
	}
	file := someFile(t)
	if err := theirs.send(message{kind: messageAdopt}, []*os.File{file}); err != nil { // only a master may send it
		t.Fatal(err)
	}
	const words = 100
	for range words {
		if err := theirs.send(message{kind: messageReady}, nil); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the process ends", func() bool { return isGone(p.child.(ownChild).command.Process.Pid) })
	m.spawner.processes[p.key] = p
	m.watch(p)
	events := m.events.takeAll()
	if want := (event{kind: evExited, worker: p.key, text: "exit status 0"}); len(events) != words+1 || !reflect.DeepEqual(events[words], want) {
		t.Errorf("%d events, the last %+v", len(events), events[len(events)-1])
	}
	if n := openFiles(t, file); n != 1 {
		t.Errorf("%d descriptors, want that of the test", n)
	}
	if err := ours.file.Close(); !errors.Is(err, os.ErrClosed) || m.spawner.find(p.key) != nil {
		t.Errorf("the process is kept: %v", err)
	}
	p = &process{key: key{0, 2}, child: ownChild{exec.Command("/bin/false")}} // without a control socket
	if err := p.child.(ownChild).command.Start(); err != nil {
		t.Fatal(err)
	}
	m.watch(p)
	if events, want := m.events.takeAll(), []event{{kind: evExited, worker: p.key, text: "exit status 1"}}; !reflect.DeepEqual(events, want) {
		t.Errorf("%+v, want %+v", events, want)
	}
}
