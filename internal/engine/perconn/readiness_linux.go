//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// readiness waits for sockets during a Run, when the connection's goroutine is
// inside RawConn.Read and Go's poller can wake nobody else. It is an epoll
// instance that is itself watched by Go's poller, so that waiting on it costs no
// thread. It is made when first needed.
type readiness struct {
	mu      sync.Mutex
	file    *os.File // keeps fd; nil: not made yet
	fd      int
	closed  bool
	last    uint64 // id of the newest watch
	watches map[uint64]*watch
	ended   chan struct{} // closed when the loop has returned
}

const (
	eventIn   = syscall.EPOLLIN
	eventGone = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	oneShot   = 1 << 30 // EPOLLONESHOT
)

// A watch is one connection's registration. It belongs to the connection from
// the first wait of this kind to the end; epoll reports nothing of it unless
// arm asked for one event. Its id is never used again, so that an event that
// comes late finds nobody.
type watch struct {
	readable chan struct{} // buffered: the socket may be readable
	timer    *time.Timer   // made at the first wait with a deadline

	mu      sync.Mutex
	fd      int
	id      uint64
	wantsIn bool
	gone    *engine.Notice
	added   bool // epoll knows fd
	closed  bool // fd may not be used any more
}

// watchable returns the connection's watch, made if need be.
func (c *conn) watchable() *watch {
	if !c.raw.inside {
		return nil
	}
	if c.raw.watch == nil {
		c.raw.watch = &watch{fd: c.raw.fd, readable: make(chan struct{}, 1)}
	}
	return c.raw.watch
}

// awaitReadable waits until the socket may be readable or readLimit has passed.
func (c *conn) awaitReadable() error {
	w := c.watchable()
	limit := c.readLimit()
	var expired <-chan time.Time
	if limit != 0 {
		left := limit - clock.Nanos()
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		if w.timer == nil {
			w.timer = time.NewTimer(time.Duration(left))
		} else {
			w.timer.Reset(time.Duration(left))
		}
		defer w.timer.Stop()
		expired = w.timer.C
	}
	if err := w.arm(&c.driver.readiness, true, nil); err != nil {
		return err
	}
	select {
	case <-w.readable:
		return nil // or woken in order to look at the deadline again
	case <-expired:
		if limit = c.readLimit(); limit == 0 || clock.Nanos() < limit {
			return nil
		}
		return os.ErrDeadlineExceeded
	}
}

// watchPeerRaw arranges for gone to be fired when the peer closes.
func (c *conn) watchPeerRaw(gone *engine.Notice) {
	if c.watchable().arm(&c.driver.readiness, false, gone) != nil {
		return // no descriptor for it: the peer's going is found out by writing
	}
}

// wake ends a wait in awaitReadable.
func (w *watch) wake() {
	select {
	case w.readable <- struct{}{}:
	default:
	}
}

// arm asks for one event more: that there is input, or that the peer is gone.
func (w *watch) arm(r *readiness, in bool, gone *engine.Notice) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in {
		w.wantsIn = true
	}
	if gone != nil {
		w.gone = gone
	}
	if w.closed {
		return os.ErrClosed
	}
	if w.added {
		return w.control(r.fd, syscall.EPOLL_CTL_MOD)
	}
	fd, err := r.enlist(w)
	if err != nil {
		return err
	}
	if err := w.control(fd, syscall.EPOLL_CTL_ADD); err != nil {
		return err
	}
	w.added = true
	return nil
}

// control tells epoll what is wanted; w.mu is held.
func (w *watch) control(epoll, operation int) error {
	event := syscall.EpollEvent{Events: oneShot, Fd: int32(w.id), Pad: int32(w.id >> 32)}
	if w.wantsIn {
		event.Events |= eventIn | syscall.EPOLLRDHUP
	}
	if w.gone != nil {
		event.Events |= eventGone
	}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(epoll, operation, w.fd, &event))
}

// happened is told of an event. epoll has disarmed the watch.
func (w *watch) happened(epoll int, events uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wantsIn {
		w.wantsIn = false
		w.wake()
	}
	if w.gone == nil || w.closed {
		return
	}
	if events&eventGone != 0 {
		gone := w.gone
		w.gone = nil
		// Whatever the callback does must not keep other connections waiting.
		go gone.Fire()
		return
	}
	if w.gone.Wanted() {
		_ = w.control(epoll, syscall.EPOLL_CTL_MOD)
	}
}

// forget ends the use of epoll by a connection that is about to be closed or
// given away.
func (r *rawConn) forget(d *driver) {
	w := r.watch
	if w == nil {
		return
	}
	r.watch = nil
	w.mu.Lock()
	w.closed = true
	if w.added {
		_ = syscall.EpollCtl(d.readiness.fd, syscall.EPOLL_CTL_DEL, w.fd, nil)
	}
	w.mu.Unlock()
	d.readiness.delist(w)
}

// enlist gives w an id, and returns the epoll descriptor.
func (r *readiness) enlist(w *watch) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, os.ErrClosed
	}
	if r.file == nil {
		if err := r.start(); err != nil {
			return 0, err
		}
	}
	if w.id == 0 {
		r.last++
		w.id = r.last
	}
	r.watches[w.id] = w
	return r.fd, nil
}

func (r *readiness) delist(w *watch) {
	r.mu.Lock()
	delete(r.watches, w.id)
	r.mu.Unlock()
}

// start makes the epoll instance; r.mu is held.
func (r *readiness) start() error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // lets os.File poll it
		_ = syscall.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	control, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return err
	}
	r.file, r.fd = file, fd
	r.watches = make(map[uint64]*watch)
	r.ended = make(chan struct{})
	go r.loop(control)
	return nil
}

// loop hands events out until the file is closed.
func (r *readiness) loop(control syscall.RawConn) {
	defer close(r.ended)
	var events [64]syscall.EpollEvent
	_ = control.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.EpollWait(int(fd), events[:], 0)
			if err == syscall.EINTR {
				continue
			}
			for i := range max(n, 0) {
				r.dispatch(&events[i])
			}
			if n < len(events) {
				return false
			}
		}
	})
}

func (r *readiness) dispatch(event *syscall.EpollEvent) {
	id := uint64(uint32(event.Fd)) | uint64(uint32(event.Pad))<<32
	r.mu.Lock()
	w := r.watches[id]
	r.mu.Unlock()
	if w != nil {
		w.happened(r.fd, event.Events)
	}
}

// close gives back what start took. No connection is left that needs it.
func (r *readiness) close() {
	r.mu.Lock()
	r.closed = true
	file, ended := r.file, r.ended
	r.mu.Unlock()
	if file != nil {
		_ = file.Close()
		<-ended
	}
}
