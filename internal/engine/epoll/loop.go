//go:build linux && (amd64 || arm64)

package epoll

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// eventsPerPass is how many events are taken at once.
const eventsPerPass = 256

// A loop is an epoll instance, the goroutine that waits for it, and the workers
// that serve its connections.
//
// Go's poller watches the epoll descriptor. The goroutine runs inside one
// RawConn.Read, whose callback, pass, takes the pending events and returns false to
// park. Waiting therefore costs no thread, and other goroutines run between two
// passes. RawConn.Read drops a pending edge only when it is entered, so an event
// during a pass wakes it again.
type loop struct {
	driver *driver
	file   *os.File // of fd; nil: not running
	fd     int
	queue  runQueue
	events []syscall.EpollEvent
	ready  []int32        // claimed in this pass
	open   atomic.Int64   // connections
	lent   atomic.Int64   // buffers that connections keep while they wait
	gone   sync.WaitGroup // the loop's goroutine and the workers'
	probes probes
	// turning holds the probes that the next pass answers.
	turning []chan struct{}
}

// newLoop returns a loop that is not running yet.
func newLoop(d *driver) *loop {
	l := &loop{driver: d, fd: -1}
	l.queue.init(d.options.MaxWorkers, d.options.MaxIdleWorkerTime, l.startWorker)
	return l
}

// newPoller returns a new epoll descriptor.
func newPoller() (int, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // os.File polls only non-blocking files
		_ = syscall.Close(fd)
		return -1, os.NewSyscallError("setnonblock", err)
	}
	return fd, nil
}

// start makes the loop run.
func (l *loop) start() error {
	fd, err := newPoller()
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "epoll")
	control, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return err
	}
	l.fd, l.file = fd, file
	l.events = make([]syscall.EpollEvent, eventsPerPass)
	l.gone.Add(1)
	l.probes.begin(file)
	go func() { // until the file is closed
		defer l.gone.Done()
		defer l.endProbes()
		for errors.Is(control.Read(l.pass), os.ErrDeadlineExceeded) {
			l.turning = append(l.turning, l.probes.take()) // the next pass answers
		}
	}()
	return nil
}

// close ends the loop and its workers.
func (l *loop) close() {
	l.queue.close()
	_ = l.file.Close()
	l.gone.Wait()
}

func (l *loop) startWorker(w *worker) {
	w.loop = l
	l.gone.Add(1)
	go w.run()
}

// pass takes all pending events. RawConn.Read calls it. It always returns false, so
// that RawConn.Read continues to wait.
func (l *loop) pass(uintptr) (done bool) {
	for {
		n := epollWait(l.fd, l.events)
		for i := range n {
			l.dispatch(&l.events[i])
		}
		l.queue.push(l.ready...)
		l.ready = l.ready[:0]
		if len(l.turning) > 0 {
			l.answerProbes()
		}
		if n < len(l.events) {
			return false
		}
		// There may be more events, for which no new edge would come.
		runtime.Gosched()
		if l.probes.isAsked() { // a busy loop must answer probes, too
			l.turning = append(l.turning, l.probes.take())
		}
	}
}

// dispatch handles one event. Pad is a connection's generation, or 0 for a
// listener.
func (l *loop) dispatch(event *syscall.EpollEvent) {
	if event.Pad == 0 {
		l.driver.accept(l, uint16(event.Fd))
		return
	}
	fd, gen := int(event.Fd), uint32(event.Pad)
	p := l.driver.table.find(fd)
	if p.chunk == nil {
		return
	}
	claimed, woken := p.slot().deliver(gen, flagsOf(event.Events))
	if claimed {
		l.ready = append(l.ready, event.Fd)
	} else if woken != 0 {
		p.wake(fd, gen, woken)
	}
}

// flagsOf returns the flags for events.
func flagsOf(events uint32) (flags uint64) {
	if events&syscall.EPOLLIN != 0 {
		flags |= flagInput
	}
	if events&syscall.EPOLLOUT != 0 {
		flags |= flagOutput
	}
	if events&syscall.EPOLLRDHUP != 0 {
		flags |= flagInput | flagGone
	}
	if events&(syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
		flags |= flagInput | flagOutput | flagGone
	}
	return flags
}

// wake signals the goroutines of a busy connection whose waits have ended.
func (p place) wake(fd int, gen uint32, woken uint64) {
	c := p.conn().Load()
	if c == nil {
		return
	}
	c.signal(woken)
	if woken&flagWatch == 0 {
		return
	}
	// c may belong to another connection by now. Its notice then differs.
	if n := c.gone.Load(); n != nil && n.fd == fd && n.gen == gen {
		go n.Fire()
	}
}
