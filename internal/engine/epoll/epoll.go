//go:build linux && (amd64 || arm64)

package epoll

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/core"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// New returns an engine that is ready to Serve. fallback serves the connections
// that are not sockets of the system; Shutdown shuts it down, too. Without
// fallback such connections are refused with an error.
//
// The engine holds no goroutine and no descriptor until it is given connections.
func New(options engine.Options, fallback engine.Engine) (engine.Engine, error) {
	// Is there epoll at all? Containers may forbid what the kernel has.
	probe, err := create()
	if err != nil {
		return nil, err
	}
	_ = syscall.Close(probe)
	return core.New("epoll", &source{}, options, fallback)
}

// A source implements core.Source. The methods that each request calls are sock's.
type source struct{ sock.Calls }

var _ core.Source = (*source)(nil)

// Open implements core.Source.
func (*source) Open() (core.Poller, error) { return open() }

// Accept implements core.Source.
func (*source) Accept(listener int, peer *sock.Address) (int, syscall.Errno) {
	return sock.Accept(listener, peer)
}

// Backlog implements core.Source.
func (*source) Backlog(listener int) int { return sock.Backlog(listener) }

// Peek implements core.Source.
func (*source) Peek(fd int, p []byte) (int, syscall.Errno) { return sock.Peek(fd, p) }

// SendBuffers implements core.Source.
func (*source) SendBuffers(fd int, v *net.Buffers) (int64, syscall.Errno) {
	return sock.SendBuffers(fd, v)
}

// SendFile implements core.Source.
func (*source) SendFile(fd int, f *os.File, offset, size int64) (int, error) {
	return sock.SendFile(fd, f, offset, size)
}

// Close implements core.Source. epoll forgets a descriptor that is closed.
func (*source) Close(fd int, isPrompt bool) {
	if isPrompt {
		sock.ClosePromptly(fd)
		return
	}
	_ = syscall.Close(fd) // nothing is left to be done about an error
}

// eventsPerPass is how many events are taken at once.
const eventsPerPass = 256

// A poller is an epoll instance. Go's own poller watches a descriptor, outer: Run is
// inside a RawConn.Read, whose callback, look, takes the pending events and returns
// false to park. Waiting therefore costs no thread, and other goroutines run
// between two passes. RawConn.Read drops a pending edge only when it is entered, so
// an event during a pass wakes it again.
//
// If there is more than one P, outer is an epoll instance that watches fd, unless Run waits itself.
// Otherwise it is fd.
type poller struct {
	file      *os.File // of outer
	fd        int
	outer     int
	control   syscall.RawConn // of file
	isWatched bool            // by outer
	events    []core.Event
	raw       []syscall.EpollEvent
	pass      func([]core.Event) core.Then
	isWoken   atomic.Bool // Wake or Close was called
	waker     int         // an eventfd that fd watches; -1: none
}

// create returns a new epoll descriptor.
func create() (int, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	_ = syscall.SetNonblock(fd, true) // never fails; os.File polls only non-blocking files
	return fd, nil
}

func open() (*poller, error) {
	fd, err := create()
	if err != nil {
		return nil, err
	}
	p := &poller{
		fd:     fd,
		outer:  fd,
		waker:  -1,
		events: make([]core.Event, eventsPerPass),
		raw:    make([]syscall.EpollEvent, eventsPerPass),
	}
	if runtime.GOMAXPROCS(0) > 1 {
		if p.outer, err = create(); err != nil {
			_ = syscall.Close(fd)
			return nil, err
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN | edgeTriggered}
		if errno := change(p.outer, syscall.EPOLL_CTL_ADD, fd, &event); errno != 0 {
			_ = syscall.Close(p.outer)
			_ = syscall.Close(fd)
			return nil, os.NewSyscallError("epoll_ctl", errno)
		}
		p.isWatched = true
	}
	p.file = os.NewFile(uintptr(p.outer), "epoll")
	return p, nil
}

// watch has outer watch fd, or stop.
func (p *poller) watch(isOn bool) {
	if p.outer == p.fd || p.isWatched == isOn {
		return
	}
	p.isWatched = isOn
	event := syscall.EpollEvent{}
	if isOn {
		event.Events = syscall.EPOLLIN | edgeTriggered
	}
	_ = p.control.Control(func(outer uintptr) { change(int(outer), syscall.EPOLL_CTL_MOD, p.fd, &event) })
}

// Run implements core.Poller.
func (p *poller) Run(pass func([]core.Event) core.Then, serve func(begins bool) core.Then) {
	control, err := p.file.SyscallConn()
	if err != nil {
		p.end() // it is closed
		return
	}
	p.pass, p.control = pass, control
	p.watch(true)
	if p.outer == p.fd && p.waker < 0 {
		_ = control.Control(p.openWaker)
	}
	for {
		err := control.Read(p.look)
		switch {
		case err == nil:
			if isLost := p.serve(serve); isLost {
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = p.file.SetReadDeadline(time.Time{}) // the next pass is what Wake wants
		default:
			p.end()
			return
		}
	}
}

func (p *poller) end() {
	if p.waker >= 0 {
		_ = syscall.Close(p.waker)
	}
	if p.outer != p.fd {
		_ = syscall.Close(p.fd)
	}
}

// directWait is how long a thread waits for events, in milliseconds.
const directWait = 1

// serve has the connections served of a pass that has returned core.Serve, and those of the passes
// that follow soon, for which it waits on its thread. isLost: another goroutine is in Run.
func (p *poller) serve(serve func(begins bool) core.Then) (isLost bool) {
	p.watch(false)
	for begins := true; ; begins = false {
		then := serve(begins)
		if then == core.Lost {
			return true
		}
		if then != core.Serve || p.outer == p.fd || p.isWoken.Load() {
			break
		}
		n := waitFor(p.fd, p.raw, directWait)
		if n == 0 || p.pass(p.take(n)) != core.Serve { // Again: the look that follows calls pass
			break
		}
	}
	p.isWoken.Store(false) // Read notices it
	p.watch(true)
	return false
}

// openWaker makes the waker. It is for one P: with more of them, others look at the network.
func (p *poller) openWaker(fd uintptr) {
	if runtime.GOMAXPROCS(0) > 1 {
		return
	}
	const flags = syscall.O_CLOEXEC | syscall.O_NONBLOCK // those of eventfd are the same
	waker, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, flags, 0)
	if errno != 0 {
		return
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | edgeTriggered, Fd: noToken}
	if change(int(fd), syscall.EPOLL_CTL_ADD, int(waker), &event) != 0 {
		_ = syscall.Close(int(waker))
		return
	}
	p.waker = int(waker)
}

// noToken is the lower half of the waker's token. No descriptor and no listener has it.
const noToken = -1

// wakeLater makes the epoll instance ready, so that the next look at the network wakes Run. It
// reports whether that works. The scheduler looks there when no goroutine is runnable, and what
// became ready first runs last, so Run goes on after all handlers that are woken with it.
func (p *poller) wakeLater() bool {
	if p.waker < 0 {
		return false
	}
	one := [8]byte{1}
	_, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.waker), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
	return errno == 0
}

// Wake implements core.Poller. A deadline in the past ends the RawConn.Read, which
// Run enters again. This needs no descriptor.
func (p *poller) Wake() error {
	p.isWoken.Store(true)
	return p.file.SetReadDeadline(time.Unix(1, 0))
}

// Close implements core.Poller.
func (p *poller) Close() error {
	p.isWoken.Store(true)
	return p.file.Close()
}

// look takes all pending events. RawConn.Read calls it, and continues to wait if the result
// is false. True: there are connections to serve.
func (p *poller) look(uintptr) (done bool) {
	for {
		n := wait(p.fd, p.raw)
		switch then := p.pass(p.take(n)); {
		case then == core.Serve:
			return true
		case then == core.Again && p.wakeLater(), then == core.Park && n < len(p.raw):
			return false
		}
		// There may be more events, for which no new edge would come.
		runtime.Gosched()
	}
}

// take returns the first n of raw, but for the waker's.
func (p *poller) take(n int) []core.Event {
	events, raw, taken := p.events, p.raw[:n], 0
	for i := range raw {
		if raw[i].Fd != noToken {
			events[taken] = eventOf(&raw[i])
			taken++
		}
	}
	return events[:taken]
}

// edgeTriggered is EPOLLET, which package syscall has as a negative number.
const edgeTriggered = 1 << 31

// eventMask is what a descriptor is registered for, once and for all.
const eventMask = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | edgeTriggered

// Add implements core.Poller.
func (p *poller) Add(fd int, token uint64) error {
	event := syscall.EpollEvent{Events: eventMask, Fd: int32(token), Pad: int32(token >> 32)}
	errno := change(p.fd, syscall.EPOLL_CTL_ADD, fd, &event)
	if errno == syscall.EEXIST {
		errno = change(p.fd, syscall.EPOLL_CTL_MOD, fd, &event)
	}
	if errno != 0 {
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// Remove implements core.Poller.
func (p *poller) Remove(fd int) { change(p.fd, syscall.EPOLL_CTL_DEL, fd, nil) }

// eventOf returns the core's form of an event.
func eventOf(raw *syscall.EpollEvent) core.Event {
	event := core.Event{Token: uint64(uint32(raw.Pad))<<32 | uint64(uint32(raw.Fd))}
	if raw.Events&syscall.EPOLLIN != 0 {
		event.Flags |= core.Input
	}
	if raw.Events&syscall.EPOLLOUT != 0 {
		event.Flags |= core.Output
	}
	if raw.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) == 0 {
		return event
	}
	event.Flags |= core.Gone
	if raw.Events&(syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
		event.Flags |= core.Output
	}
	return event
}

// RawSyscall does not tell the scheduler that a call is going on, which saves 50
// to 100 ns. It is for calls that wait for nothing: the thread would keep its P
// meanwhile, and with it the whole of a process that has one.

// wait takes the events that are there and returns their number.
func wait(epoll int, events []syscall.EpollEvent) int {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		if errno == 0 {
			return int(n)
		}
		if errno != syscall.EINTR {
			return 0
		}
	}
}

// waitFor is wait, for ms milliseconds at most. The scheduler may give the P to others meanwhile.
func waitFor(epoll int, events []syscall.EpollEvent, ms int) int {
	n, _, errno := syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

func change(epoll, operation, fd int, event *syscall.EpollEvent) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(epoll), uintptr(operation),
		uintptr(fd), uintptr(unsafe.Pointer(event)), 0, 0)
	return errno
}
