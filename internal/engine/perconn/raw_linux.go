//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// The raw path. A connection's goroutine stays inside one RawConn.Read, whose
// callback reads, serves and writes with system calls of its own and returns
// false to wait. Two rules keep it from missing input, because Go registers
// sockets edge-triggered:
//
//  1. RawConn.Read drops a pending edge when it is entered, so the callback
//     begins with a recv.
//  2. The callback may return false only after a recv that told the socket to
//     be drained: EAGAIN, or a receive queue of 0. A short read does not tell:
//     the FIN may have come with the data, on the same edge. The queue length
//     (TCP_INQ) is 1 behind a FIN, though not behind a reset. Edges that come
//     later are kept. Where anything but EAGAIN is taken for an answer, somebody
//     must look for the end later: fincheck_linux.go.

// rawConn is the raw path's part of a conn.
type rawConn struct {
	control  syscall.RawConn // nil: the connection goes the plain path
	receiver *receiver       // of the coroutine at work
	watch    *watch          // what epoll knows of the socket; nil: nothing
	fd       int             // valid while inside
	inside   bool            // in RawConn.Read's callback
	isTCP    bool
	drained  bool // the last recv left nothing
	// isAssumed: the last recv did not tell whether the peer is gone.
	isAssumed bool
	reads     uint8 // up to hotReads
}

const (
	optionQueue  = 36 // TCP_INQ
	messageQueue = 36 // TCP_CM_INQ
	optionProto  = 38 // SO_PROTOCOL
	yieldAfter   = 16 // passes of a connection that always has input
)

func (r *rawConn) enabled() bool { return r.control != nil }

func (r *rawConn) entered() bool { return r.inside }

func (r *rawConn) enter(fd uintptr) { r.fd, r.inside = int(fd), true }

func (r *rawConn) exit() { r.inside, r.receiver = false, nil }

func (r *rawConn) read(f func(uintptr) bool) error { return r.control.Read(f) }

// prepareRaw finds out whether s's connections go the raw path.
func (s *serving) prepareRaw() {
	switch l := s.listener.(type) {
	case *net.TCPListener:
		s.yieldsRaw.Store(true)
		control, err := l.SyscallConn()
		if err != nil {
			return
		}
		_ = control.Control(func(fd uintptr) {
			// An MPTCP socket, which is what Go listens with by default, does
			// not pass the option on to connections that are plain TCP.
			proto, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, optionProto)
			if err == nil && proto == syscall.IPPROTO_TCP {
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, optionQueue, 1)
				s.reportsQueue.Store(err == nil)
			}
		})
	case *net.UnixListener:
		s.yieldsRaw.Store(true)
	}
}

// take chooses the path of nc.
func (r *rawConn) take(nc net.Conn, s *serving) {
	switch nc := nc.(type) {
	case *net.TCPConn:
		control, err := nc.SyscallConn()
		if err != nil {
			return
		}
		if s == nil || !s.reportsQueue.Load() {
			// Where it fails, recv finds no queue length and reads on.
			_ = control.Control(reportQueue)
		}
		r.control, r.isTCP = control, true
	case *net.UnixConn:
		if addr := nc.LocalAddr(); addr == nil || addr.Network() != "unix" {
			return // packets, whose empty reads are no FIN
		}
		if control, err := nc.SyscallConn(); err == nil {
			r.control = control
		}
	}
}

func reportQueue(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, optionQueue, 1)
}

// inputRaw is taskInput: it reads and serves until the socket is drained. True
// leaves RawConn.Read, with the reason in c.next.
func (w *worker) inputRaw(co *coroutine) bool {
	c := &w.conn
	c.next = engine.Close
	if !c.wake() {
		return true
	}
	co.attach(c)
	c.raw.receiver = &co.receiver
	next := c.pumpRaw()
	for next == engine.Read {
		if c.raw.isAssumed {
			c.askForCheck()
		}
		if !c.park() {
			return true
		}
		if !c.isPrompted() {
			co.detach(c)
			return false
		}
		if !c.wake() {
			return true
		}
		// As many prompts as there may be, they hold up neither the deadline
		// nor the next recv.
		if c.isLate(clock.Nanos()) {
			next = c.timedOut()
		}
		if next == engine.Read {
			next = c.promptedRaw()
		}
		if next == engine.Read {
			next = c.pumpRaw()
		}
	}
	c.next = next
	return true
}

// promptedRaw calls Prompted. There must be another recv before a wait: a Run may
// have used up what the last one told.
func (c *conn) promptedRaw() engine.Next {
	return c.lookLeft(c.servePrompt())
}

// leftRaw is taskLeft: RawConn.Read has returned. True enters it again.
func (w *worker) leftRaw(co *coroutine) bool {
	c := &w.conn
	if c.in == nil {
		co.attach(c)
	}
	next := c.next
	if w.readErr != nil {
		next = c.stopped(w.readErr)
	}
	if next != engine.Read {
		c.finish(next)
	}
	co.detach(c)
	return next == engine.Read
}

func (c *conn) pumpRaw() engine.Next {
	if len(c.unread) > 0 { // ServeConn's leftover
		if next := c.drive(c.unread); next != engine.Read {
			return c.lookLeft(next)
		}
	}
	for pass := 1; ; pass++ {
		n, errno := c.recv(c.in)
		switch {
		case n > 0:
			if next := c.drive(c.in[:n]); next != engine.Read {
				return c.lookLeft(next)
			}
			if c.raw.drained {
				return engine.Read
			}
		case errno == syscall.EAGAIN:
			return engine.Read
		case errno != 0:
			c.fail(os.NewSyscallError("recv", errno))
			return engine.Abort
		default:
			return c.endOfInput()
		}
		if c.isPrompted() { // the input may go on for ever
			if next := c.promptedRaw(); next != engine.Read {
				return next
			}
		}
		if pass%yieldAfter == 0 {
			runtime.Gosched()
		}
	}
}

// lookLeft finds out whether closing would meet input that nobody has read.
func (c *conn) lookLeft(next engine.Next) engine.Next {
	if next == engine.Close && len(c.unread) == 0 && !c.raw.drained {
		n, _ := c.recv(c.in)
		c.moreInput = n > 0
	}
	return next
}

// readRaw implements Read during a Run.
func (c *conn) readRaw(p []byte) (int, error) {
	for {
		n, errno := c.recv(p)
		switch {
		case n > 0:
			return n, nil
		case errno == 0:
			return 0, io.EOF
		case errno != syscall.EAGAIN:
			return 0, os.NewSyscallError("recv", errno)
		}
		if err := c.awaitReadable(); err != nil {
			return 0, err
		}
	}
}

// writeRaw implements Write.
func (c *conn) writeRaw(p []byte) (int, error) {
	n, errno := c.sendRaw(p)
	if n == len(p) {
		return n, nil
	}
	if errno != 0 && errno != syscall.EAGAIN {
		return n, os.NewSyscallError("send", errno)
	}
	return c.writeBlocked(p, n)
}

// sendRaw sends some of p; what is in front of a file may share a packet with it.
func (c *conn) sendRaw(p []byte) (int, syscall.Errno) {
	if c.file != nil {
		return sock.SendMore(c.raw.fd, p)
	}
	return sock.Send(c.raw.fd, p)
}

// writeBlocked writes p[n:] to a socket that takes no more for now.
func (c *conn) writeBlocked(p []byte, n int) (int, error) {
	began := clock.Nanos()
	c.boundWait(began)
	var failed error
	err := c.raw.control.Write(func(uintptr) bool {
		for n < len(p) {
			m, errno := sock.Send(c.raw.fd, p[n:])
			if errno == syscall.EAGAIN {
				return false
			}
			if errno != 0 {
				failed = os.NewSyscallError("send", errno)
				return true
			}
			n += m
		}
		return true
	})
	if err == nil {
		err = failed
	}
	c.stalled += clock.Nanos() - began
	return n, err
}

// boundWait arms for a write that waits from now on.
func (c *conn) boundWait(now int64) {
	limit := c.writeLimit(now)
	if limit != 0 || c.writeArmed != 0 {
		c.armWrite(limit)
		c.yieldToOverride()
	}
}

// writeBuffersRaw implements WriteBuffers.
func (c *conn) writeBuffersRaw(v *net.Buffers) (int64, error) {
	var written int64
	for {
		n, errno := sock.SendBuffers(c.raw.fd, v)
		written += n
		switch errno {
		case 0:
			if len(*v) == 0 {
				return written, nil
			}
		case syscall.EAGAIN:
			m, err := c.writeBlocked((*v)[0], 0)
			written += int64(m)
			(*v)[0] = (*v)[0][m:]
			if err != nil {
				return written, err
			}
		default:
			return written, os.NewSyscallError("sendmsg", errno)
		}
	}
}

// refuseRaw writes a refusal, and discards what has arrived so that closing
// does not reset the connection.
func (c *conn) refuseRaw(refusal []byte) {
	_ = c.raw.control.Control(func(fd uintptr) {
		if _, errno := sock.Send(int(fd), refusal); errno != 0 {
			return
		}
		_ = syscall.Shutdown(int(fd), syscall.SHUT_WR)
		var discard [4 << 10]byte
		for range 16 {
			if n, errno := sock.Recv(int(fd), discard[:]); n <= 0 || errno != 0 {
				return
			}
		}
	})
}

// shutdownRaw ends all traffic on a connection without closing its descriptor.
func shutdownRaw(nc net.Conn) {
	if sc, ok := nc.(syscall.Conn); ok {
		if control, err := sc.SyscallConn(); err == nil {
			_ = control.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
		}
	}
}
