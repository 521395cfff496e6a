//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package load

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

type connState uint8

const (
	unused     connState = iota
	paused               // could not be made; since says when to try again
	connecting           // since says from when on
	greeting             // and HTTP/2's SETTINGS, or the answer to WebSocket's handshake, have not come
	idle                 // nothing is under way
	busy                 // requests are under way; since says when they were sent (HTTP/2: when something came)
	parting              // the server has said that it will end the connection; since says when
	finished
)

// A conn is one of a loop's connections, and those that come after it.
type conn struct {
	fd         int // -1: none
	index      int32
	generation int32 // goes up when the socket is closed; events carry it
	state      connState
	hasEnded   bool // the peer will send nothing more than what is there
	isQueued   bool // in the loop's ring
	isAgain    bool // in the loop's again
	since      int64
	session    *session // nil: HTTP/1.1
	due        []int64  // when the requests under way were due; HTTP/2: those that wait for a stream
	answered   int      // how many of them have their response
	responses  int      // on this socket
	written    int      // bytes of the run's batch, or of the session's output
	toWrite    int
	writeErr   syscall.Errno
	failures   int // to connect, since the last response
	toWarm     int // batches to send before the run begins; -1: it has sent them
	framer     framer
}

// socketError returns why a socket is not connected.
func (c *conn) socketError() error {
	n, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return os.NewSyscallError("getsockopt", err)
	case n == 0:
		n = int(unix.ECONNRESET)
	}
	return os.NewSyscallError("connect", syscall.Errno(n))
}

// available gives a connection without requests the next ones, if they are to be
// sent now.
func (l *loop) available(c *conn) {
	if l.toWarm > 0 {
		l.warmNext(c)
		return
	}
	if c.session != nil && c.fd >= 0 {
		l.fill(c)
		return
	}
	if l.schedule != nil && !l.isSpent {
		c.state = idle
		l.idle.push(c)
		return
	}
	n := 0
	if !l.isSpent {
		n = l.begin(l.Depth)
	}
	if n == 0 {
		l.isSpent = true
		l.finish(c)
		return
	}
	if c.fd < 0 {
		l.now = l.clock.now() // others may have been connected since
	}
	for range n {
		c.due = append(c.due, l.now)
	}
	l.assign(c)
}

// warmNext sends the next batch of a connection that warms up.
func (l *loop) warmNext(c *conn) {
	if c.toWarm <= 0 {
		if c.toWarm == 0 {
			l.toWarm--
		}
		c.toWarm, c.state = -1, idle
		return
	}
	c.toWarm--
	for range l.Depth {
		c.due = append(c.due, l.now)
	}
	l.assign(c)
}

// assign sends the requests that were put in c.due.
func (l *loop) assign(c *conn) {
	l.rec.Sent += int64(len(c.due))
	if c.fd < 0 {
		l.open(c)
		return
	}
	l.send(c)
}

// finish ends a connection for good.
func (l *loop) finish(c *conn) {
	l.shut(c)
	c.state = finished
	l.live--
}

// shut closes the socket.
func (l *loop) shut(c *conn) {
	if c.state == connecting || c.state == greeting {
		l.opening--
	}
	if c.session != nil {
		c.session.clear()
	}
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
	c.fd, c.state = -1, unused
	c.generation++
	c.hasEnded, c.writeErr = false, 0
	c.written, c.toWrite, c.responses = 0, 0, 0
	c.framer.reset()
}

// renew makes a connection that has none useful again.
func (l *loop) renew(c *conn) {
	if l.OncePerConn && len(c.due) == 0 {
		l.available(c)
		return
	}
	l.open(c)
}

// open connects.
func (l *loop) open(c *conn) {
	c.state, c.since = connecting, l.now
	l.opening++
	err := l.connect(c)
	switch {
	case err == nil:
		l.connected(c)
	case errors.Is(err, unix.EINPROGRESS):
	case errors.Is(err, unix.EAGAIN) && int64(c.failures)*firstPause < int64(l.Timeout):
		// A Unix socket's backlog is full.
		c.failures++
		l.shut(c)
		l.rest(c, firstPause)
	default:
		l.notConnected(c, err)
	}
}

// connect makes a socket and connects it.
func (l *loop) connect(c *conn) (err error) {
	c.fd, err = unix.Socket(l.address.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.fd = -1
		return os.NewSyscallError("socket", err)
	}
	if l.address.family != unix.AF_UNIX {
		if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	started := unix.Connect(c.fd, l.address.remote)
	if started != nil && started != unix.EINPROGRESS {
		return os.NewSyscallError("connect", started)
	}
	event := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     c.index, Pad: c.generation,
	}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	return started
}

// connected takes a new connection into use.
func (l *loop) connected(c *conn) {
	if c.session != nil {
		c.state = greeting
		c.session.reset()
		l.transmit(c)
		return
	}
	if l.handshake != nil {
		c.state = greeting
		c.written, c.toWrite = 0, len(l.handshake.request)
		l.transmit(c)
		return
	}
	l.established(c)
}

// established sends the first requests on a connection.
func (l *loop) established(c *conn) {
	l.opening--
	l.met()
	l.rec.Connections++
	l.now = l.clock.now()
	c.state = idle
	if len(c.due) > 0 {
		l.send(c)
		return
	}
	l.available(c)
}

// notConnected gives up an attempt to connect, and the requests that it was for.
func (l *loop) notConnected(c *conn, err error) {
	l.shut(c)
	lost := len(c.due)
	if lost == 0 {
		lost = l.begin(1)
	}
	if lost == 0 {
		l.isSpent = true
		l.finish(c)
		return
	}
	l.rec.failed(Connect, err, lost)
	c.clear()
	c.failures++
	l.missed()
	l.rest(c, pause(c.failures))
}

// rest waits before the next attempt to connect.
func (l *loop) rest(c *conn, length int64) {
	c.state, c.since = paused, l.now+length
	l.waiting++
	l.nextTick = min(l.nextTick, c.since)
}

// underWay appends when the requests were due that have no response to dst, which may
// be the beginning of c.due.
func (c *conn) underWay(dst []int64) []int64 {
	dst = append(dst, c.due[c.answered:]...)
	if c.session != nil {
		dst = c.session.underWay(dst)
	}
	return dst
}

// hasRequests reports whether a request has no response.
func (c *conn) hasRequests() bool {
	return c.answered < len(c.due) || c.session != nil && c.session.open > 0
}

// clear forgets the requests under way.
func (c *conn) clear() { c.due, c.answered = c.due[:0], 0 }

// fail counts the requests under way, or one thing that is wrong without any, and
// connects anew.
func (l *loop) fail(c *conn, kind Kind, err error) {
	l.rec.failed(kind, err, max(len(c.underWay(nil)), 1))
	c.clear()
	l.shut(c)
	l.renew(c)
}

// part leaves a connection that the server ends behind a response. Requests that
// it has not answered are sent once more: they count from when they were due.
func (l *loop) part(c *conn) {
	if !c.hasEnded {
		// With a FIN the port would wait for a minute here.
		_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	c.due, c.answered = c.underWay(c.due[:0]), 0
	l.shut(c)
	l.renew(c)
}

// A ring is a queue of idle connections. None is in it twice.
type ring struct {
	conns       []*conn
	head, count int
}

func (r *ring) push(c *conn) {
	if c.isQueued {
		return
	}
	c.isQueued = true
	r.conns[(r.head+r.count)%len(r.conns)] = c
	r.count++
}

// pop returns the connection that has waited longest, nil if there is none. It may
// be idle no more.
func (r *ring) pop() *conn {
	if r.count == 0 {
		return nil
	}
	c := r.conns[r.head]
	r.head = (r.head + 1) % len(r.conns)
	r.count--
	c.isQueued = false
	return c
}

// address is what a loop connects to.
type address struct {
	family int
	remote unix.Sockaddr
}

func (a *address) set(network, name string) error {
	if network == "unix" {
		a.family, a.remote = unix.AF_UNIX, &unix.SockaddrUnix{Name: name}
		return nil
	}
	addr, err := netip.ParseAddrPort(name)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", name, err)
	}
	ip := addr.Addr().Unmap()
	if ip.Is4() {
		a.family, a.remote = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
		return nil
	}
	remote := &unix.SockaddrInet6{Port: int(addr.Port()), Addr: ip.As16()}
	if zone := ip.Zone(); zone != "" {
		remote.ZoneId, err = zoneIndex(zone)
	}
	a.family, a.remote = unix.AF_INET6, remote
	return err
}
