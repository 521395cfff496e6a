package supervise

import (
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// deafWorker returns a worker that receives no orders, and the master's end.
func deafWorker(t *testing.T) (w *Worker, master *link) {
	t.Helper()
	ours, theirs := linkPair(t)
	w = &Worker{options: AttachOptions{Logger: noLogger{}}, orders: newOrderQueue(), orphaned: make(chan struct{})}
	w.link, w.pings = theirs, newProbes()
	return w, ours
}

// heard returns the next message of a kind that the master gets.
func heard(t *testing.T, master *link, kind messageType) message {
	t.Helper()
	master.file.SetReadDeadline(time.Now().Add(patience))
	for {
		m, _, err := master.receive()
		if err != nil {
			t.Fatalf("no message %d: %v", kind, err)
		}
		if m.kind == kind {
			return m
		}
	}
}

// A worker that receives no orders still answers PINGs, and its SIGTERM still reaches
// the master.
func TestUnreceivedOrdersBlockNothing(t *testing.T) {
	const many = 100
	t.Run("probes", func(t *testing.T) {
		w, master := deafWorker(t)
		go w.listen()
		go w.answer()
		for range many {
			until(t, "the order is sent", func() bool { return master.send(message{kind: messageReopen}, nil) == nil })
		}
		until(t, "the probe is sent", func() bool { return master.send(message{kind: messagePing, seq: 4711}, nil) == nil })
		if m := heard(t, master, messagePong); m.seq != 4711 {
			t.Errorf("PONG %d", m.seq)
		}
		w.orphan.Do(func() {}) // here the end of the link does not mean the master's death
	})
	t.Run("signals", func(t *testing.T) {
		w, master := deafWorker(t)
		terms, reopens := make(chan os.Signal), make(chan os.Signal)
		go w.heedSignals(terms, reopens)
		for i := range many {
			select {
			case reopens <- syscall.SIGUSR1:
			case <-time.After(patience):
				t.Fatalf("signal %d is not taken", i)
			}
		}
		terms <- syscall.SIGTERM
		heard(t, master, messageRecycle)
	})
}

// One order at a time is on its way to a worker that does not receive it; later ones can
// still be replaced.
func TestOneOrderIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newOrderQueue()
		for range 5 {
			q.put(Order{Kind: OrderReopen})
			synctest.Wait()
		}
		received := 0
		for isMore := true; isMore; synctest.Wait() {
			select {
			case <-q.out:
				received++
			default:
				isMore = false
			}
		}
		if received != 2 {
			t.Errorf("%d orders, want the first and the last", received)
		}
	})
}

// Pending orders are bounded: an order replaces those that it makes pointless, and
// closes their files.
func TestOrdersReplaceEarlierOnes(t *testing.T) {
	files := func() []*os.File {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		write.Close()
		return []*os.File{read}
	}
	adopt := func(slot int) Order { return Order{Kind: OrderAdopt, Slot: slot, Files: files()} }
	release := func(slot int) Order { return Order{Kind: OrderRelease, Slot: slot} }
	drain := func(grace time.Duration, hasSuccessor bool) Order {
		return Order{Kind: OrderDrain, Grace: grace, HasSuccessor: hasSuccessor}
	}
	reopen := Order{Kind: OrderReopen}
	for _, c := range []struct {
		name string
		put  []Order
		want []string
	}{
		{"reopen", []Order{reopen, reopen, reopen}, []string{"reopen 0"}},
		{"order is kept", []Order{release(1), adopt(2), reopen, drain(9, true)}, []string{"release 1", "adopt 2", "reopen 0", "drain 0 9ns true"}},
		{"adopted again", []Order{adopt(1), release(1), adopt(1)}, []string{"release 1", "adopt 1"}},
		{"released", []Order{adopt(1), adopt(2), release(1)}, []string{"adopt 2", "release 1"}},
		{"adopted twice", []Order{adopt(1), adopt(1)}, []string{"adopt 1"}},
		{"less time", []Order{drain(9, false), drain(5, true)}, []string{"drain 0 5ns true"}},
		{"never more time", []Order{drain(5, true), drain(9, false)}, []string{"drain 0 5ns false"}},
		{"a time that is not known", []Order{drain(5, true), drain(0, false), drain(7, false)}, []string{"drain 0 5ns false"}},
		{"a time that was not known", []Order{drain(0, true), drain(7, true)}, []string{"drain 0 7ns true"}},
		{"quit", []Order{adopt(1), reopen, drain(9, true), {Kind: OrderQuit}}, []string{"quit 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newOrderQueue()
			q.isSent = true // no order is received meanwhile
			for _, o := range c.put {
				q.put(o)
			}
			go q.send()
			var got []string
			for range c.want {
				o := <-q.out
				text := fmt.Sprint(o.Kind, " ", o.Slot)
				if o.Kind == OrderDrain {
					text += fmt.Sprint(" ", o.Grace, " ", o.HasSuccessor)
				}
				got = append(got, text)
				closeFiles(o.Files)
			}
			until(t, "all were received", func() bool {
				q.mu.Lock()
				defer q.mu.Unlock()
				return !q.isSent
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("received %q, want %q", got, c.want)
			}
			for _, o := range c.put {
				for _, f := range o.Files {
					if f.Close() == nil {
						t.Errorf("a file of %v %d is still open", o.Kind, o.Slot)
					}
				}
			}
		})
	}
}

// stuckLogger is a log whose Printf blocks.
type stuckLogger struct{}

func (stuckLogger) Printf(string, ...any) { select {} }

// A blocked log does not delay the reaction to the master's death. The log's reader
// may have been the master's parent.
func TestOrphanDoesNotWaitForItsLog(t *testing.T) {
	w := &Worker{options: AttachOptions{Logger: stuckLogger{}, OrphanGrace: time.Hour}, orphaned: make(chan struct{})}
	go w.becomeOrphan()
	select {
	case <-w.Orphaned():
	case <-time.After(patience):
		t.Fatal("the worker does not know that it is an orphan")
	}
}

// An orphan has the grace of its options, or the one in HELLO.
func TestOrphanGrace(t *testing.T) {
	w := &Worker{layout: layout{OrphanGraceMS: 1500}}
	if got := w.orphanGrace(); got != 1500*time.Millisecond {
		t.Errorf("the master's: %v", got)
	}
	w.options.OrphanGrace = time.Second
	if got := w.orphanGrace(); got != time.Second {
		t.Errorf("its own: %v", got)
	}
}

// A worker that asked for a successor drains without one after ten seconds, and at
// once when it is asked again.
func TestRecycleIsBounded(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := deafWorker(t)
			drains := func() bool {
				synctest.Wait()
				select {
				case o := <-w.orders.out:
					return o.Kind == OrderDrain
				default:
					return false
				}
			}
			w.terminate(false)
			time.Sleep(10*time.Second - 1)
			if drains() {
				t.Error("it did not wait for the master")
			}
			if again {
				w.terminate(true)
			} else {
				time.Sleep(time.Nanosecond)
			}
			if !drains() {
				t.Errorf("asked again: %v: it does not drain", again)
			}
			w.terminate(true)
			if time.Sleep(time.Minute); drains() {
				t.Error("it drains twice")
			}
		})
	}
}

// Of two pending orders to drain, the shorter time holds. Zero means at once.
func TestDrainsThatWait(t *testing.T) {
	for _, c := range [][3]time.Duration{{5, 0, 5}, {0, 5, 5}, {5, 3, 3}, {3, 5, 3}, {1, 5, 1}, {5, 1, 1}, {0, 0, 0}, {4, 4, 4}} {
		q := newOrderQueue()
		q.isSent = true // no order is received
		q.put(Order{Kind: OrderReopen})
		for _, grace := range c[:2] {
			q.put(Order{Kind: OrderDrain, Grace: grace})
		}
		if len(q.waiting) != 2 || q.waiting[0].Kind != OrderReopen || q.waiting[1].Grace != c[2] {
			t.Errorf("%v: %+v", c, q.waiting)
		}
	}
}

// Valid messages become orders, others do not.
func TestOrderOf(t *testing.T) {
	const anything = messageType(200)
	for _, c := range []struct {
		m    message
		want Order // without Ack
		isIt bool
	}{
		{message{kind: messageDrain, payload: appendGrace(nil, time.Second)}, Order{Kind: OrderDrain, Grace: time.Second}, true},
		{message{kind: messageDrain, flags: flagSuccessor, payload: appendGrace(nil, 0)}, Order{Kind: OrderDrain, HasSuccessor: true}, true},
		{message{kind: messageDrain, payload: []byte{1, 2, 3}}, Order{}, false},
		{message{kind: messageRelease, slot: 7}, Order{Kind: OrderRelease, Slot: 7}, true},
		{message{kind: messageAdopt, slot: 7}, Order{Kind: OrderAdopt, Slot: 7}, true},
		{message{kind: messageReopen}, Order{Kind: OrderReopen}, true},
		{message{kind: messageQuit}, Order{Kind: OrderQuit}, true},
		{message{kind: anything}, Order{}, false},
	} {
		w, master := deafWorker(t)
		c.m.seq = 4711
		o, isIt := w.orderOf(c.m, nil)
		if isIt != c.isIt || isIt && (o.Kind != c.want.Kind || o.Slot != c.want.Slot || o.Grace != c.want.Grace || o.HasSuccessor != c.want.HasSuccessor) {
			t.Errorf("%+v: %+v, %v", c.m, o, isIt)
		}
		if w.draining != (c.isIt && c.want.Kind == OrderDrain) {
			t.Errorf("%+v: draining %v", c.m, w.draining)
		}
		if !isIt {
			continue
		}
		if err := o.Ack(); err != nil {
			t.Errorf("%+v: %v", c.m, err)
		}
		if got := heard(t, master, messageAck); got.seq != 4711 {
			t.Errorf("%+v: the answer is to %d", c.m, got.seq)
		}
	}
}

// A descriptor to adopt that is not a listener is closed.
func TestAdoptsListenersOnly(t *testing.T) {
	w, _ := deafWorker(t)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	listener, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var descriptors []int
	for _, fd := range []uintptr{0: listener.Fd(), 1: os.Stderr.Fd()} {
		fd, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		descriptors = append(descriptors, fd)
	}
	o, isIt := w.orderOf(message{kind: messageAdopt, slot: 7}, descriptors)
	if !isIt || len(o.Files) != 1 || int(o.Files[0].Fd()) != descriptors[0] {
		t.Fatalf("%+v, %v", o, isIt)
	}
	o.Files[0].Close()
	if _, err := unix.FcntlInt(uintptr(descriptors[1]), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the other one is open: %v", err)
	}
}
