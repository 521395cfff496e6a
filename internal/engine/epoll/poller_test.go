//go:build linux && (amd64 || arm64)

package epoll

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/core"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
	"github.com/sluicehttp/sluice/internal/invariants"
	"golang.org/x/sys/unix"
)

// running has a poller run until the test ends. What it reports goes to events.
func running(t *testing.T) (p core.Poller, events <-chan core.Event) {
	t.Helper()
	p, err := new(source).Open()
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan core.Event, 4*eventsPerPass)
	var ended sync.WaitGroup
	ended.Go(func() {
		p.Run(func(events []core.Event) core.Then {
			for _, event := range events {
				all <- event
			}
			return core.Park
		}, nil)
	})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		ended.Wait()
		if err := p.Wake(); err == nil {
			t.Error("Wake works after Close")
		}
	})
	return p, all
}

func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Close(fds[0])
		_ = syscall.Close(fds[1])
	})
	return fds[0], fds[1]
}

func next(t *testing.T, events <-chan core.Event) core.Event {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	return core.Event{}
}

// More descriptors have events at once than a pass takes in one go. Nobody tells
// the poller a second time.
func TestManyEventsAtOnce(t *testing.T) {
	const count = 3*eventsPerPass + 1
	p, err := open()
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		fd, _ := pair(t)
		if err := p.Add(fd, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[uint64]int)
	p.pass = func(events []core.Event) core.Then {
		for _, event := range events {
			seen[event.Token]++
		}
		return core.Park
	}
	if p.look(0) {
		t.Error("a pass ends waiting")
	}
	if len(seen) != count {
		t.Errorf("one pass reports %d descriptors, want %d", len(seen), count)
	}
	_ = p.Close()
}

// What happens to a descriptor comes with its token; what is there when it is
// added, and what is there when it is added again, comes too.
func TestEvents(t *testing.T) {
	const token = 0xfedcba98_76543210
	p, events := running(t)
	fd, peer := pair(t)
	expect := func(when string, want uint64) {
		t.Helper()
		if got := next(t, events); got.Token != token || got.Flags&want != want {
			t.Errorf("%s: event %x for %x, want %x for %x", when, got.Flags, got.Token, want, uint64(token))
		}
	}
	if err := p.Add(fd, token); err != nil {
		t.Fatal(err)
	}
	expect("added", core.Output)
	if err := p.Add(fd, token); err != nil {
		t.Fatal(err)
	}
	expect("added again", core.Output)
	_, _ = syscall.Write(peer, []byte("x"))
	expect("input", core.Input)
	_ = syscall.Shutdown(peer, syscall.SHUT_WR)
	expect("the end of the input", core.Gone)
	_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
	expect("the end", core.Gone|core.Output)
	p.Remove(fd)
	if errno := change(p.(*poller).fd, syscall.EPOLL_CTL_DEL, fd, nil); errno != syscall.ENOENT {
		t.Errorf("after Remove: %v, want ENOENT", errno)
	}
}

// Each event is told exactly. What has ended can also be written to: that fails.
func TestEventOf(t *testing.T) {
	for raw, want := range map[uint32]uint64{
		0: 0, syscall.EPOLLIN: core.Input, syscall.EPOLLOUT: core.Output, syscall.EPOLLIN | syscall.EPOLLOUT: core.Input | core.Output,
		syscall.EPOLLRDHUP: core.Gone, syscall.EPOLLHUP: core.Gone | core.Output, syscall.EPOLLERR: core.Gone | core.Output,
		syscall.EPOLLIN | syscall.EPOLLRDHUP: core.Input | core.Gone, syscall.EPOLLPRI: 0,
	} {
		const token = 0x89abcdef_fedcba98
		got := eventOf(&syscall.EpollEvent{Events: raw, Fd: -0x01234568, Pad: -0x76543211})
		if want := (core.Event{Token: token, Flags: want}); got != want {
			t.Errorf("%#x is %+v, want %+v", raw, got, want)
		}
	}
}

// New keeps no descriptor, and says why epoll is not to be had.
func TestNewHoldsNothing(t *testing.T) {
	count := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(all)
	}
	before := count()
	for range 3 {
		newEngine(engine.Options{})
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skip(err)
	}
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max})
	if err != nil {
		t.Skip(err)
	}
	e, err := New(engine.Options{}, netconn.New(engine.Options{}))
	p, openErr := open()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{err, openErr} {
		var call *os.SyscallError
		if !errors.As(err, &call) || call.Syscall != "epoll_create1" || call.Err != syscall.EMFILE {
			t.Errorf("without descriptors: %v", err)
		}
	}
	if e != nil || p != nil {
		t.Errorf("without descriptors: %v, %v", e, p)
	}
}

// A descriptor that is no epoll instance has no events.
func TestWaitFails(t *testing.T) {
	if n := wait(-1, make([]syscall.EpollEvent, 3)); n != 0 {
		t.Errorf("%d events", n)
	}
}

// An epoll instance is not given to other programs, and does not block.
func TestCreate(t *testing.T) {
	fd, err := create()
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	for command, want := range map[int]int{syscall.F_GETFD: syscall.FD_CLOEXEC, syscall.F_GETFL: syscall.O_NONBLOCK} {
		if flags, err := unix.FcntlInt(uintptr(fd), command, 0); err != nil || flags&want == 0 {
			t.Errorf("flags %#x, %v: %#x is missing", flags, err, want)
		}
	}
}

// A descriptor that epoll does not take is refused with epoll's error.
func TestAddRefuses(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, _ := running(t)
	if err := p.Add(int(file.Fd()), 1); !errors.Is(err, syscall.EPERM) {
		t.Errorf("Add of %s: %v, want EPERM", os.DevNull, err)
	}
}

// handle is called again if it has returned true, though nothing happens. With one P, what a look at
// the network wakes runs before that.
func TestAgain(t *testing.T) {
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprint("GOMAXPROCS=", procs), func(t *testing.T) { testAgain(t, procs) })
	}
}

func testAgain(t *testing.T, procs int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	const rounds = 100
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var arrived atomic.Int64
	go func() {
		for one := make([]byte, 1); ; arrived.Add(1) {
			if _, err := r.Read(one); err != nil {
				return
			}
		}
	}()
	p, err := open()
	if err != nil {
		t.Fatal(err)
	}
	calls, first := int64(0), 0
	done, ended := make(chan bool), make(chan bool)
	go func() {
		p.Run(func(events []core.Event) core.Then {
			if len(events) > 0 {
				t.Errorf("events %v", events)
			}
			if calls > 0 && arrived.Load() == calls {
				first++
			}
			if calls++; calls > rounds {
				close(done)
				return core.Park
			}
			go w.Write([]byte("x"))
			return core.Again
		}, nil)
		close(ended)
	}()
	<-done
	if procs == 1 && !invariants.Enabled && first < rounds/2 { // the runtime's monitor looks, too
		t.Errorf("the reader was first in %d of %d rounds", first, rounds)
	}
	if hasWaker := p.waker >= 0; hasWaker != (procs == 1) {
		t.Errorf("a waker: %v", hasWaker)
	}
	_ = p.Close()
	<-ended
	if _, err := unix.FcntlInt(uintptr(p.waker), syscall.F_GETFD, 0); err != syscall.EBADF {
		t.Errorf("after Run, the waker is open: %v", err)
	}
}

// Every Wake has Run call handle, though nothing happens.
func TestWake(t *testing.T) {
	p, err := new(source).Open()
	if err != nil {
		t.Fatal(err)
	}
	calls, ended := make(chan bool), make(chan bool)
	go func() {
		p.Run(func([]core.Event) core.Then { calls <- true; return core.Park }, nil)
		close(ended)
	}()
	for range 5 {
		<-calls
		if err := p.Wake(); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for range calls {
		}
	}()
	_ = p.Close()
	<-ended
	close(calls)
}

// After a pass that has returned Serve, Run waits on its thread, until there is a Wake, and another
// goroutine may run the poller while serve runs.
func TestServe(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p, err := open()
	if err != nil {
		t.Fatal(err)
	}
	fd, peer := pair(t)
	send := func() { _, _ = syscall.Write(peer, []byte("x")) }
	woken, other := make(chan bool, 10), make(chan bool, 10)
	stuck, freed, lost, ended := make(chan bool), make(chan bool), make(chan bool), make(chan bool)
	isWoken := false
	var begun []bool
	go func() {
		p.Run(func(events []core.Event) core.Then {
			if len(events) > 0 && events[0].Flags&core.Input != 0 {
				return core.Serve
			}
			if isWoken {
				woken <- true
			}
			return core.Park
		}, func(begins bool) core.Then {
			if p.isWatched {
				t.Error("Go's poller watches meanwhile")
			}
			if isWoken {
				close(stuck)
				<-freed
				return core.Lost
			}
			switch begun = append(begun, begins); {
			case len(begun) < 3:
				send()
			default:
				isWoken = true
				_ = p.Wake()
			}
			return core.Serve
		})
		close(lost)
	}()
	if err := p.Add(fd, 1); err != nil {
		t.Fatal(err)
	}
	send()
	<-woken
	if !slices.Equal(begun, []bool{true, false, false}) {
		t.Errorf("begins: %v", begun)
	}
	send()
	<-stuck
	go func() {
		p.Run(func(events []core.Event) core.Then {
			if len(events) > 0 {
				other <- true
			}
			return core.Park
		}, nil)
		close(ended)
	}()
	send()
	<-other
	close(freed)
	<-lost
	send()
	<-other
	_ = p.Close()
	<-ended
}
