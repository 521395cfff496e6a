package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// testInboxes are the inboxes of two slots as a worker in slot 0 has them, and the
// master's ends.
type testInboxes struct {
	inboxes
	pairs [2]*inboxPair
	log   *logLines
}

// duplicate returns a duplicate of f's descriptor.
func duplicate(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func newTestInboxes(t *testing.T) *testInboxes {
	t.Helper()
	b := &testInboxes{log: &logLines{}}
	for slot := range b.pairs {
		pair, err := newInboxPair()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pair.close)
		b.pairs[slot] = pair
	}
	b.attach(t, &b.inboxes)
	return b
}

// attach creates another worker of slot 0.
func (b *testInboxes) attach(t *testing.T, to *inboxes) {
	t.Helper()
	to.begin(0, b.log)
	to.waiting[0] = duplicate(t, b.pairs[0].rx)
	for slot, pair := range b.pairs {
		to.addPeer(slot, duplicate(t, pair.tx))
	}
	t.Cleanup(func() {
		to.stop(false)
		closeAll(slices.Collect(maps.Values(to.waiting))) // what takeBack would read
		closeAll(*to.peers.Load())
	})
}

// somePipe returns the read end of a pipe, as a descriptor to send.
func somePipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r
}

// collector collects parcels.
type collector struct {
	mu       sync.Mutex
	payloads []string
	last     []byte // of payloads, in the reader's memory
	inside   atomic.Int32
	clashes  atomic.Int32
}

func (c *collector) take(fd int, payload []byte) {
	if c.inside.Add(1) > 1 {
		c.clashes.Add(1)
	}
	defer c.inside.Add(-1)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		c.clashes.Add(1)
	}
	unix.Close(fd)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payloads, c.last = append(c.payloads, string(payload)), payload
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.payloads)
}

func TestParcels(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	if n := b.slots(); n != 2 {
		t.Errorf("%d slots", n)
	}
	before := openFiles(t, pipe, b.pairs[0].rx)
	largest := bytes.Repeat([]byte("x"), MaxParcel)
	for _, payload := range [][]byte{nil, []byte("some"), largest} {
		if err := b.post(0, int(pipe.Fd()), payload, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		slot    int
		payload []byte
		want    error
	}{
		"too large": {0, append(largest, 0), ErrParcelSize},
		"no slot":   {2, nil, ErrNoInbox},
		"negative":  {-1, nil, ErrNoInbox},
	} {
		if err := b.post(c.slot, int(pipe.Fd()), c.payload, time.Hour); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.post(0, -1, nil, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
	var c collector
	b.receive(c.take)
	b.receive(func(int, []byte) { t.Error("a second Receive has an effect") })
	if len(b.waiting) != 0 {
		t.Errorf("what is read waits: %v", b.waiting)
	}
	until(t, "all are there", func() bool { return c.count() == 3 })
	if c.payloads[0] != "" || c.payloads[1] != "some" || c.payloads[2] != string(largest) {
		t.Errorf("payloads of %d, %q and %d", len(c.payloads[0]), c.payloads[1], len(c.payloads[2]))
	}
	b.stop(false)
	if !bytes.Equal(c.last, make([]byte, MaxParcel)) {
		t.Error("the last payload is left in the reader")
	}
	b.takeBack()
	if after := openFiles(t, pipe, b.pairs[0].rx); after >= before { // its own rx is closed, too
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if len(b.log.lines) > 0 {
		t.Error(b.log.lines)
	}
}

// Without inboxes nothing happens.
func TestNoInboxes(t *testing.T) {
	w := &Worker{}
	w.Receive(func(int, []byte) { t.Error("a parcel") })
	if err := w.Post(0, 0, nil, time.Hour); !errors.Is(err, ErrNoInbox) || w.Slots() != 0 {
		t.Errorf("%v, %d slots", err, w.Slots())
	}
	w.StopReceiving(true)
}

// Invalid parcels are dropped and their descriptors closed, and the next parcel is
// taken.
func TestBadParcels(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	var c collector
	b.receive(c.take)
	before := openFiles(t, pipe)
	parcel := appendMessage(nil, message{kind: messageParcel, payload: []byte("no")})
	for i, bad := range []struct {
		packet []byte
		files  int
	}{
		{parcel, 0}, {parcel, 2}, {parcel, maxDescriptors + 9}, {parcel[:headSize-1], 1}, {parcel[:len(parcel)-1], 1},
		{[]byte("GET / HTTP/1.1"), 1}, {appendMessage(nil, message{kind: messageAdopt}), 1}, {nil, 1}, {nil, 0},
		{make([]byte, headSize+maxPayload+1), 1},
	} {
		var rights []byte
		if bad.files > 0 {
			var fds []int
			for range bad.files {
				fds = append(fds, int(pipe.Fd()))
			}
			rights = unix.UnixRights(fds...)
		}
		if err := unix.Sendmsg(int(b.pairs[0].tx.Fd()), bad.packet, rights, nil, 0); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if err := b.post(0, int(pipe.Fd()), []byte("good"), 0); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		until(t, fmt.Sprintf("the good one after %d is taken", i), func() bool { return c.count() == i+1 })
		if n := openFiles(t, pipe); n != before {
			t.Errorf("%d: %d descriptors, %d before", i, n, before)
		}
	}
	if n := len(b.log.lines); n != 10 {
		t.Errorf("%d lines in the log: %v", n, b.log.lines)
	}
}

// An inbox takes hundreds of parcels. If it is full, Post fails or waits.
func TestFullInbox(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	// Root gets larger ones. This is the size without privileges.
	if err := unix.SetsockoptInt((*b.peers.Load())[0], unix.SOL_SOCKET, unix.SO_SNDBUF, inboxBuffer); err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock((*b.peers.Load())[0], false) // any process that has the end may do so
	sent := 0
	var err error
	for ; sent < 1e6 && err == nil; sent++ {
		err = b.post(0, int(pipe.Fd()), make([]byte, 100), 0)
	}
	sent--
	t.Logf("%d parcels", sent)
	if !errors.Is(err, ErrInboxFull) || sent < 200 {
		t.Fatalf("after %d: %v", sent, err)
	}
	began := time.Now()
	if err := b.post(0, int(pipe.Fd()), nil, 5*time.Millisecond); !errors.Is(err, ErrInboxFull) || time.Since(began) < 5*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if err := b.post(1, int(pipe.Fd()), nil, 0); err != nil {
		t.Errorf("another inbox: %v", err)
	}
	posted := make(chan error, 1)
	go func() { posted <- b.post(0, int(pipe.Fd()), nil, patience) }()
	var c collector
	b.receive(c.take)
	if err := <-posted; err != nil {
		t.Errorf("%v", err)
	}
	until(t, "all are there", func() bool { return c.count() == sent+1 })
}

// StopReceiving waits for the call of take that runs. It leaves the rest to the next
// reader, or takes it.
func TestStopReceiving(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var left atomic.Bool
	var first atomic.Int32
	b.receive(func(fd int, _ []byte) {
		unix.Close(fd)
		if first.Add(1) == 1 {
			close(entered)
		}
		<-leave
		left.Store(true)
	})
	for range 10 {
		if err := b.post(0, int(pipe.Fd()), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	stopped := make(chan bool, 2)
	for range 2 {
		go func() {
			b.stop(false)
			stopped <- left.Load()
		}()
	}
	until(t, "stop has begun", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.state == receivingOver
	})
	select {
	case <-stopped:
		t.Fatal("stopped while take runs")
	default:
	}
	close(leave)
	for range 2 {
		if !<-stopped {
			t.Error("stopped while take ran")
		}
	}
	b.adopt(1, duplicate(t, b.pairs[1].rx)) // too late

	var next inboxes
	b.attach(t, &next)
	var c collector
	// The other readers have ended: this one takes what is pending.
	next.receive(c.take)
	next.stop(true)
	if len(next.waiting) != 0 {
		t.Errorf("kept: %v", next.waiting)
	}
	if n := c.count() + int(first.Load()); n != 10 {
		t.Errorf("%d of 10 were taken, %d by the first", n, first.Load())
	}
	next.stop(true)
}

// The inbox of another slot is read from adoption to release, any number of times,
// and never twice at the same time.
func TestAdoptedInboxes(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	var c collector
	send := func(kind messageType, slot int, descriptors ...int) {
		t.Helper()
		if !b.message(message{kind: kind, slot: uint16(slot)}, descriptors) {
			t.Errorf("message %d is none of inboxes", kind)
		}
	}
	post := func(slot int) {
		t.Helper()
		if err := b.post(slot, int(pipe.Fd()), []byte(fmt.Sprint(slot)), 0); err != nil {
			t.Fatal(err)
		}
	}
	before := openFiles(t, pipe, b.pairs[0].rx, b.pairs[1].rx, b.pairs[1].tx)
	send(messageInbox, 1, duplicate(t, b.pairs[1].rx)) // before Receive
	send(messageInbox, 1, duplicate(t, b.pairs[1].rx)) // twice
	post(1)
	b.receive(c.take)
	until(t, "the first is taken", func() bool { return c.count() == 1 })
	for i := range 20 {
		send(messageInboxOff, 1)
		send(messageInbox, 1, duplicate(t, b.pairs[1].rx))
		post(1)
		post(0)
		until(t, "they are taken", func() bool { return c.count() == 3+2*i })
	}
	send(messageInboxOff, 1)
	send(messageInboxOff, 0) // the master cannot take its own inbox away
	until(t, "descriptors are back", func() bool { return openFiles(t, pipe, b.pairs[0].rx, b.pairs[1].rx, b.pairs[1].tx) == before })
	post(1)
	post(0)
	until(t, "its own is taken", func() bool { return c.count() == 42 })

	send(messagePeer, 1, duplicate(t, b.pairs[1].tx)) // is known already
	send(messagePeer, 2, duplicate(t, pipe))          // not a socket
	send(messagePeer, 2)
	send(messageInbox, 1, duplicate(t, pipe), duplicate(t, pipe))
	if n := openFiles(t, pipe, b.pairs[0].rx, b.pairs[1].rx, b.pairs[1].tx); n != before || b.slots() != 2 {
		t.Errorf("%d descriptors, %d before; %d slots", n, before, b.slots())
	}
	send(messagePeer, 4, duplicate(t, b.pairs[1].tx))
	if err := b.post(4, int(pipe.Fd()), nil, 0); err != nil || b.slots() != 5 {
		t.Errorf("%v, %d slots", err, b.slots())
	}
	if err := b.post(3, int(pipe.Fd()), nil, 0); !errors.Is(err, ErrNoInbox) {
		t.Errorf("%v", err)
	}
	if b.message(message{kind: messageAdopt}, nil) {
		t.Error("ADOPT is for others")
	}
	if n := c.clashes.Load(); n > 0 {
		t.Errorf("%d clashes", n)
	}
}

// An inbox without senders is no longer read. A new one may arrive for its slot.
func TestInboxWithoutSenders(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	var c collector
	b.receive(c.take)
	for i := range 2 {
		pair, err := newInboxPair()
		if err != nil {
			t.Fatal(err)
		}
		b.message(message{kind: messageInbox, slot: 7}, []int{duplicate(t, pair.rx)})
		parcel := appendMessage(nil, message{kind: messageParcel})
		if err := unix.Sendmsg(int(pair.tx.Fd()), parcel, unix.UnixRights(int(pipe.Fd())), nil, 0); err != nil {
			t.Fatal(err)
		}
		until(t, "the parcel is taken", func() bool { return c.count() == i+1 })
		pair.close()
		until(t, "its reader ends", func() bool { return openReaders(&b.inboxes) == 1 })
	}
}

func openReaders(b *inboxes) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.readers)
}

// Readers of two inboxes do not call take at the same time.
func TestOneParcelAtATime(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	var c collector
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	b.receive(func(fd int, payload []byte) {
		entered <- struct{}{}
		<-leave
		c.take(fd, payload)
	})
	b.adopt(1, duplicate(t, b.pairs[1].rx))
	for slot := range 2 {
		if err := b.post(slot, int(pipe.Fd()), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	until(t, "both were received", func() bool {
		for _, pair := range b.pairs {
			if _, _, err := unix.Recvfrom(int(pair.rx.Fd()), nil, unix.MSG_PEEK|unix.MSG_DONTWAIT); err != unix.EAGAIN {
				return false
			}
		}
		return true
	})
	time.Sleep(5 * time.Millisecond) // long enough for the second to run, which it must not
	if len(entered) > 0 {
		t.Error("two parcels at once")
	}
	close(leave)
	until(t, "both are taken", func() bool { return c.count() == 2 })
}

// FuzzInbox: whatever an inbox contains, the parcel after it is taken, and no
// descriptor leaks.
func FuzzInbox(f *testing.F) {
	good := appendMessage(nil, message{kind: messageParcel, slot: 3, payload: []byte("leftover")})
	f.Add(good, 1)
	f.Add(good, 0)
	f.Add(good, 3)
	f.Add(good[:headSize-2], 1)
	f.Add([]byte{}, 1)
	f.Add([]byte{}, 0)
	f.Add(appendMessage(nil, message{kind: messageInbox, slot: 1}), 1)
	f.Fuzz(func(t *testing.T, packet []byte, files int) {
		if len(packet) > 2*maxPayload {
			return
		}
		b, pipe := newTestInboxes(t), somePipe(t)
		last := make(chan struct{})
		b.receive(func(fd int, payload []byte) {
			unix.Close(fd)
			if string(payload) == "the last" {
				close(last)
			}
		})
		before := openFiles(t, pipe)
		var rights []byte
		if files = files & 0x7f; files > 0 {
			fds := make([]int, files)
			for i := range fds {
				fds[i] = int(pipe.Fd())
			}
			rights = unix.UnixRights(fds...)
		}
		if err := unix.Sendmsg(int(b.pairs[0].tx.Fd()), packet, rights, nil, 0); err != nil {
			t.Fatal(err)
		}
		if err := b.post(0, int(pipe.Fd()), []byte("the last"), 0); err != nil {
			t.Fatal(err)
		}
		select {
		case <-last:
		case <-time.After(patience):
			t.Fatal("the last parcel is not taken")
		}
		if n := openFiles(t, pipe); n != before {
			t.Errorf("%d descriptors, %d before", n, before)
		}
	})
}

// What a worker has posted to its own slot can be taken back once, if no other
// process reads there.
func TestTakeBack(t *testing.T) {
	b := newTestInboxes(t)
	b.takeBack() // Receive was not called yet: nothing happens
	var c collector
	b.receive(c.take)
	b.adopt(1, duplicate(t, b.pairs[1].rx))
	b.stop(false)
	if _, isKept := b.waiting[0]; !isKept || len(b.waiting) != 1 {
		t.Errorf("kept: %v", b.waiting)
	}
	for _, text := range []string{"one", "two"} {
		if err := b.post(0, int(somePipe(t).Fd()), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.post(1, int(somePipe(t).Fd()), []byte("another slot's"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.takeBack()
		if !slices.Equal(c.payloads, []string{"one", "two"}) {
			t.Errorf("%q", c.payloads)
		}
	}
	if len(b.waiting) != 0 {
		t.Errorf("descriptors are kept: %v", b.waiting)
	}
}

// An inbox that is taken back before Receive is closed, and nothing else is.
func TestReleaseBeforeReceive(t *testing.T) {
	pair, err := newInboxPair()
	if err != nil {
		t.Fatal(err)
	}
	defer pair.close()
	fd, err := unix.Dup(int(pair.rx.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	var b inboxes
	b.begin(0, noLogger{})
	b.adopt(1, fd)
	isOpen := func() bool {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err == nil
	}
	if b.release(2); !isOpen() {
		t.Error("the inbox of another slot was closed")
	}
	if b.release(1); isOpen() {
		t.Error("it is still open")
	}
	if len(b.waiting) > 0 {
		t.Errorf("%v wait", b.waiting)
	}
}

// An inbox is a Unix socket that keeps message boundaries.
func TestIsInbox(t *testing.T) {
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(stream[:])
	b := newTestInboxes(t)
	for fd, want := range map[int]bool{
		int(b.pairs[0].rx.Fd()): true, int(b.pairs[0].tx.Fd()): true, stream[0]: false, int(somePort(t).Fd()): false, int(somePipe(t).Fd()): false, -1: false,
	} {
		if got := isInbox(fd); got != want {
			t.Errorf("descriptor %d: %v", fd, got)
		}
	}
}

// unprivileged calls do on a thread that may not exceed the system's limits.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var old [2]unix.CapUserData
	if err := unix.Capget(&head, &old[0]); err != nil {
		t.Fatal(err)
	}
	fewer := old
	fewer[0].Effective = 0
	if err := unix.Capset(&head, &fewer[0]); err != nil {
		t.Fatal(err)
	}
	defer unix.Capset(&head, &old[0])
	do()
}

// An inbox is as large as the process may make it.
func TestSizeOfInbox(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/core/wmem_max")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	size := func() int {
		pair, err := newInboxPair()
		if err != nil {
			t.Fatal(err)
		}
		defer pair.close()
		size, err := unix.GetsockoptInt(int(pair.tx.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil {
			t.Fatal(err)
		}
		return size / 2 // the kernel doubles it
	}
	unprivileged(t, func() {
		if got := size(); got != min(most, 8<<20) {
			t.Errorf("without privileges: %d bytes, want %d", got, min(most, 8<<20))
		}
	})
	if got := size(); got != 8<<20 && os.Geteuid() == 0 {
		t.Errorf("%d bytes", got)
	}
}

// A payload that an inbox can never hold is refused at once.
func TestParcelLargerThanInbox(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	if err := unix.SetsockoptInt((*b.peers.Load())[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.post(0, int(pipe.Fd()), make([]byte, MaxParcel), time.Hour); err != ErrParcelSize {
		t.Errorf("%v", err)
	}
}

// Post tries again after a millisecond if the limit is not the inbox's own.
func TestAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{time.Hour: time.Millisecond, time.Microsecond: time.Microsecond} {
			began := time.Now()
			if awaitRoom(-1, unix.ETOOMANYREFS, left); time.Since(began) != want {
				t.Errorf("%v left: it waits %v", left, time.Since(began))
			}
		}
	})
	began := time.Now()
	if awaitRoom(-1, unix.EAGAIN, time.Hour); time.Since(began) < 20*time.Millisecond {
		t.Errorf("it waits %v for room", time.Since(began))
	}
}

// A read that a signal has interrupted does not end a reader. The end of all senders
// does.
func TestDeliver(t *testing.T) {
	b := newTestInboxes(t)
	r := newReader(&b.inboxes, 0, duplicate(t, b.pairs[0].rx))
	if !r.deliver(packet{err: unix.EINTR}) || !r.deliver(packet{}) {
		t.Error("the reader ends")
	}
	if r.deliver(packet{err: unix.EAGAIN}) || r.deliver(packet{err: unix.EBADF}) {
		t.Error("the reader does not end after an error")
	}
	if b.log.lines = nil; r.isOver() {
		t.Error("it takes the senders for gone")
	}
	r.link.close()
	if r.isOver() {
		t.Error("a link that is closed has no senders")
	}
}

// A worker whose slot has no inbox begins to read nothing, and ends what it was told to
// read.
func TestOpenWithoutOwnInbox(t *testing.T) {
	b, pipe := newTestInboxes(t), somePipe(t)
	var other inboxes
	other.begin(3, b.log)
	other.open(layout{Slot: 3}, 3)
	rx := duplicate(t, b.pairs[0].rx)
	other.open(layout{Slot: 3, Inboxes: []int{3}}, int(pipe.Fd())) // a Start function has not passed it on
	if len(other.waiting) != 0 || other.slots() != 0 {
		t.Errorf("%v wait, %d slots", other.waiting, other.slots())
	}
	other.adopt(0, rx)
	other.stop(false)
	if _, err := unix.FcntlInt(uintptr(rx), unix.F_GETFD, 0); err == nil || len(other.waiting) > 0 {
		t.Error("it is still open")
	}
}
