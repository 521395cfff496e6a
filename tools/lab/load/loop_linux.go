//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package load

import (
	"context"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// hasLoops: this system has event loops.
const hasLoops = true

// A loop is a thread that waits for all its sockets at once. Everything but the
// recorder belongs to the goroutine of work.
type loop struct {
	*run
	rec      *recorder
	epoll    int
	wake     int // an eventfd: the run has ended, or all requests were begun
	timer    int // a timerfd, for requests that are due
	armedFor int64
	address  address
	conns    []conn
	events   []unix.EpollEvent
	buf      []byte
	heads    headReader
	schedule *schedule // of an open loop; nil: it is closed
	idle     ring
	again    []*conn // there may be more to read
	spare    []*conn // again's other memory
	opening  int     // connections
	unopened int     // the first connection that was not opened yet
	live     int     // connections that may still send something
	waiting  int     // connections that could not be made, and are tried again
	now      int64
	nextTick int64
	isSpent  bool // there are no more requests to begin
	toWarm   int  // connections that have not warmed up, in warm
}

const (
	recvSize  = 64 << 10
	maxEvents = 512
)

// Marks of the events that are not a connection's.
const (
	wakeMark  = -1
	timerMark = -2
)

// newLoop returns thread i of a run.
func newLoop(r *run, i int) (thread, error) {
	l := &loop{
		run: r, rec: r.recorders[i], epoll: -1, wake: -1, timer: -1,
		conns:  make([]conn, r.share(i)),
		events: make([]unix.EpollEvent, maxEvents),
		buf:    make([]byte, recvSize),
		heads:  headReader{isBodiless: r.IsHead, handshake: r.handshake},
	}
	if r.Rate > 0 {
		l.schedule = newSchedule(r.Rate, i, r.Threads)
	}
	l.idle.conns = make([]*conn, len(l.conns))
	l.live = len(l.conns)
	for i := range l.conns {
		l.conns[i] = conn{fd: -1, index: int32(i), framer: r.newFramer(&l.heads), due: make([]int64, 0, r.Depth)}
		if r.http2 != nil {
			l.conns[i].session = newSession(r.http2)
		}
	}
	err := l.address.set(r.Network, r.Address)
	if err == nil {
		err = l.openFiles()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *loop) openFiles() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeMark})
	if err != nil {
		return err
	}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.timer, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: timerMark})
}

// close implements thread.
func (l *loop) close() {
	for i := range l.conns {
		if fd := l.conns[i].fd; fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, fd := range []int{l.epoll, l.wake, l.timer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// warm implements thread.
func (l *loop) warm() {
	l.toWarm = len(l.conns)
	for i := range l.conns {
		l.conns[i].toWarm = warmUps
	}
	l.waitAndPass(func() bool { return l.toWarm == 0 || l.rec.ErrorSum() > 0 })
	l.toWarm, l.nextTick = 0, 0 // the clock begins again
}

// work implements thread.
func (l *loop) work() (unanswered, unsent int64) {
	l.rec.mu.Lock()
	l.now = l.clock.now()
	for i := range l.conns[:l.unopened] { // they have warmed up
		c := &l.conns[i]
		c.toWarm = 0
		if c.state == idle {
			l.available(c)
		}
	}
	l.rec.mu.Unlock()
	l.waitAndPass(func() bool {
		isOver := l.live == 0 || l.Duration > 0 && l.now >= int64(l.Duration) || l.ctx.Err() != nil
		if isOver {
			unanswered, unsent = l.leftOver()
		}
		return isOver
	})
	return unanswered, unsent
}

// waitAndPass waits for events and handles them until isOver, which is called with
// the recorder's lock held, is true or the run's context has ended.
func (l *loop) waitAndPass(isOver func() bool) {
	woken := make(chan struct{})
	stopWaking := context.AfterFunc(l.ctx, func() {
		defer close(woken)
		l.rouse()
	})
	defer func() {
		if !stopWaking() {
			<-woken // it uses the descriptor
		}
	}()
	for wait := 0; ; {
		n := epollWait(l.epoll, l.events, wait)
		l.rec.mu.Lock()
		wait = l.pass(l.events[:n])
		end := isOver() || l.ctx.Err() != nil
		l.rec.mu.Unlock()
		if end {
			return
		}
	}
}

// rouse ends the wait for events. Any goroutine may call it until close.
func (l *loop) rouse() { _, _ = unix.Write(l.wake, binary.NativeEndian.AppendUint64(nil, 1)) }

// pass does what there is to do, and returns for how many milliseconds to wait
// then.
func (l *loop) pass(events []unix.EpollEvent) (wait int) {
	l.now = l.clock.now()
	for i := range events {
		e := &events[i]
		switch {
		case e.Fd == wakeMark:
			if l.ctx.Err() != nil {
				return 0
			}
			var b [8]byte
			_, _ = unix.Read(l.wake, b[:]) // it was there
		case e.Fd == timerMark:
			l.armedFor = 0
		default:
			l.event(&l.conns[e.Fd], e)
		}
	}
	again := l.again
	l.again = l.spare[:0]
	for _, c := range again {
		c.isAgain = false
		if c.state == idle || c.state == busy || c.state == parting || c.state == greeting {
			l.receive(c)
		}
	}
	l.spare = again
	for l.opening < maxOpening && l.unopened < len(l.conns) {
		l.unopened++
		l.renew(&l.conns[l.unopened-1])
	}
	if l.now >= l.nextTick {
		l.tick()
	}
	l.dispatch()
	return l.patience()
}

// event handles what epoll says of a connection.
func (l *loop) event(c *conn, e *unix.EpollEvent) {
	if c.generation != e.Pad {
		return // of a connection before this one
	}
	hasFailed := e.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0
	if c.state == connecting {
		switch {
		case hasFailed:
			l.notConnected(c, c.socketError())
			return
		case e.Events&unix.EPOLLOUT == 0:
			return
		}
		l.connected(c)
	} else if e.Events&unix.EPOLLOUT != 0 {
		l.transmit(c)
	}
	if c.generation != e.Pad {
		return
	}
	c.hasEnded = c.hasEnded || hasFailed || e.Events&unix.EPOLLRDHUP != 0
	if e.Events&unix.EPOLLIN != 0 || c.hasEnded {
		l.receive(c)
	}
}

// tick looks for what took too long, and for connections to try again.
func (l *loop) tick() {
	for i := range l.conns[:l.unopened] {
		c := &l.conns[i]
		switch {
		case (c.state == connecting || c.state == greeting) && l.now-c.since > int64(l.Timeout):
			l.notConnected(c, errConnectTimeout)
		case c.state == busy && c.session != nil:
			l.overdue(c)
		case c.state == busy && l.now-c.since > int64(l.Timeout):
			for _, due := range c.due[c.answered:] {
				record(l.rec.now.total, l.now-due)
			}
			l.fail(c, Timeout, errResponseTimeout)
		case c.state == parting && l.now-c.since > int64(l.Timeout):
			l.part(c)
		case c.state == paused && l.now >= c.since:
			l.waiting--
			l.renew(c)
		}
	}
	length := min(max(l.Timeout/8, time.Millisecond), 100*time.Millisecond)
	if l.waiting > 0 {
		length = min(length, time.Duration(firstPause))
	}
	l.nextTick = l.now + int64(length)
}

// dispatch gives requests that are due to idle connections.
func (l *loop) dispatch() {
	if l.schedule == nil || l.toWarm > 0 {
		return
	}
	l.isSpent = l.isSpent || l.hasBegunAll()
	due := l.schedule.due(l.now)
	for due > 0 && !l.isSpent {
		c := l.idle.pop()
		if c == nil {
			return
		}
		room := l.room(c)
		if room == 0 {
			continue
		}
		// As few on one connection as the number of idle ones allows.
		idle := int64(l.idle.count + 1)
		n := l.begin(int(min(int64(room), (due+idle-1)/idle)))
		if n == 0 {
			l.isSpent = true
			l.idle.push(c)
			break
		}
		for range n {
			c.due = append(c.due, l.schedule.take())
		}
		due -= int64(n)
		l.assign(c)
		if l.room(c) > 0 {
			l.idle.push(c)
		}
	}
	if l.isSpent {
		for c := l.idle.pop(); c != nil; c = l.idle.pop() {
			if c.state == idle {
				l.finish(c)
			}
		}
	}
	if next := l.schedule.next(); l.idle.count > 0 && l.armedFor != next {
		l.armedFor = next
		in := unix.NsecToTimespec(max(next-l.clock.now(), 1))
		_ = unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: in}, nil)
	}
}

// patience returns for how many milliseconds epoll may wait.
func (l *loop) patience() int {
	if len(l.again) > 0 {
		return 0
	}
	until := l.nextTick
	if l.Duration > 0 && l.toWarm == 0 {
		until = min(until, int64(l.Duration))
	}
	return int(max(until-l.now+int64(time.Millisecond)-1, 0) / int64(time.Millisecond))
}

// leftOver counts what has no response in the end. In an open loop, what was
// waited for it until now is a latency like any other: a server that stops
// answering is not forgiven the requests that it owes.
func (l *loop) leftOver() (unanswered, unsent int64) {
	now := l.clock.now()
	for i := range l.conns {
		c := &l.conns[i]
		left := c.underWay(nil)
		unanswered += int64(len(left))
		if l.schedule == nil {
			continue
		}
		for _, due := range left {
			record(l.rec.now.total, now-due)
		}
	}
	if l.schedule == nil || l.isSpent {
		return unanswered, 0
	}
	unsent = int64(l.begin(int(l.schedule.due(now))))
	l.schedule.overdue(l.rec.now.total, unsent, now)
	return unanswered, unsent
}
