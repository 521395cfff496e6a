//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package pool

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// ErrNotQuiet says that Turn.Take found an idle connection closed, or with unread
// bytes, and has written nothing.
var ErrNotQuiet = errors.New("sluice: an idle connection is closed or has unread bytes")

// ErrNothingArrived is returned by Turn.Read, and nothing else returns it.
var ErrNothingArrived = errors.New("sluice: the beginning of the response has not arrived")

// A Turn writes a request to an idle connection and waits for the response, on a bare
// TCP socket. The methods of net.Conn need one system call more: Read tries before it
// waits, and the response of a server is never there yet. And they tell the scheduler of
// every call, which wakes the runtime's monitor thread again and again in a client that
// mostly waits. The calls here never wait.
type Turn struct {
	conn    *net.TCPConn
	raw     syscall.RawConn // nil: conn is something else
	step    func(fd uintptr) (done bool)
	arrived func() error
	out     []byte
	phase   turnPhase
	fd      int           // during a call of arrived
	errno   syscall.Errno // of writing
	err     error         // of arrived
	holder  engine.Holder // sends out, if it takes it; nil: none
	held    engine.Held
	isHeld  bool // holder has out
}

type turnPhase uint8

const (
	turnLooks    turnPhase = iota // nothing was done yet
	turnWrites                    // the connection is quiet
	turnReads                     // all of the request was written
	turnReceived                  // the response, or the end of the connection
)

// Init sets the connection. A connection that wraps another one cannot be used: its
// Read and Write may do more.
//
// Take calls arrived when the response may have begun: a request that waits needs no buffer.
// arrived calls Read once, and returns the error.
func (t *Turn) Init(c net.Conn, arrived func() error) {
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := conn.SyscallConn(); err == nil {
		t.conn, t.raw, t.step, t.arrived, t.held.Wake = conn, raw, t.next, arrived, t.wake
	}
}

// CanTake reports whether Take works for the connection.
func (t *Turn) CanTake() bool { return t.raw != nil }

// Take writes out, and waits until arrived has read the beginning of the response; err may be
// that of arrived. written is how much of out was written. If the socket has no room for the rest,
// Take does not wait, returns no error, and may have changed the connection's read deadline, which
// limits the wait. If there is a holder, it may send out, together with what others send. Then only
// the caller may close the connection, after Take has returned: if the descriptor's number belonged to
// another connection meanwhile, out could be sent on that one.
func (t *Turn) Take(out []byte, holder engine.Holder) (written int, err error) {
	t.out, t.phase, t.errno, t.err, t.holder = out, turnLooks, 0, nil, holder
	err = t.raw.Read(t.step)
	for err == nil && t.isHeld && t.phase == turnReads && t.held.State() == engine.HeldSent { // since next has looked
		err = t.raw.Read(t.step)
	}
	switch {
	case !t.isHeld:
	case t.phase == turnReceived: // so it was sent
		t.isHeld, t.holder = false, nil
	default:
		err = t.recall(out, err)
	}
	written = len(out) - len(t.out)
	t.out = nil
	switch {
	case t.phase == turnLooks && !errors.Is(err, os.ErrDeadlineExceeded):
		return 0, ErrNotQuiet // or closed by this process
	case err != nil:
		return written, err
	case t.errno != 0 && t.errno != syscall.EAGAIN:
		return written, t.failed("write", t.errno)
	case t.phase == turnReads: // something came before out was sent, and is not the response
		return written, io.EOF
	}
	return written, t.err
}

// Read reads what has arrived. Only arrived may call it.
func (t *Turn) Read(p []byte) (int, error) {
	n, errno := sock.Recv(t.fd, p)
	switch {
	case errno == syscall.EAGAIN:
		return 0, ErrNothingArrived
	case errno != 0:
		return 0, t.failed("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// recall ends what holder has, and sets the state as if out had been written here. err is that of
// waiting; the result is that of Take.
func (t *Turn) recall(out []byte, err error) error {
	t.isHeld, t.holder = false, nil
	if invariants.Enabled && errors.Is(err, net.ErrClosed) {
		panic("sluice: a connection was closed while a Holder had its request")
	}
	switch t.held.Recall() {
	case engine.HeldSent:
		return err
	case engine.HeldCut:
		t.out, t.phase, t.errno = out[t.held.N:], turnWrites, t.held.Errno
		return t.conn.SetReadDeadline(time.Time{}) // wake may have set it
	case engine.HeldNotQuiet:
		err = nil
	}
	t.out, t.phase = out, turnLooks
	return err
}

// wake ends the waiting for a response.
func (t *Turn) wake() { _ = t.conn.SetReadDeadline(clock.Past()) }

func (t *Turn) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: t.conn.LocalAddr(), Addr: t.conn.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// next is the function for RawConn.Read, which calls it at once and, while it returns
// false, whenever something arrives. Events before the first call are forgotten, so
// that call has to look for what has arrived before.
func (t *Turn) next(fd uintptr) (done bool) {
	if t.isHeld {
		if s := t.held.State(); s != engine.HeldSent { // something has happened before out was sent, or instead
			return s != engine.HeldWaits || !sock.IsQuiet(int(fd))
		}
	}
	if t.phase == turnLooks {
		if t.holder != nil {
			t.held.FD = int(fd)
			if t.isHeld = t.holder.Hold(&t.held, t.out); t.isHeld {
				t.out, t.phase = nil, turnReads
				return false
			}
		}
		if !sock.IsQuiet(int(fd)) {
			return true
		}
		t.phase = turnWrites
		for len(t.out) > 0 {
			n, errno := sock.Send(int(fd), t.out)
			t.out = t.out[n:]
			if errno != 0 {
				t.errno = errno
				return true
			}
		}
		t.phase = turnReads
		return false
	}
	t.fd = int(fd)
	if t.err = t.arrived(); t.err == ErrNothingArrived {
		t.err = nil
		return false
	}
	t.phase = turnReceived
	return true
}
