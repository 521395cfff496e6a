//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package pool

import (
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// ErrNotQuiet says that Turn.Take found an idle connection closed, or with unread
// bytes, and has written nothing.
var ErrNotQuiet = errors.New("sluice: an idle connection is closed or has unread bytes")

// A Turn writes a request to an idle connection and waits for the response, on a bare
// TCP socket. The methods of net.Conn need one system call more: Read tries before it
// waits, and the response of a server is never there yet. And they tell the scheduler of
// every call, which wakes the runtime's monitor thread again and again in a client that
// mostly waits. The calls here never wait.
type Turn struct {
	conn    *net.TCPConn
	raw     syscall.RawConn // nil: conn is something else
	step    func(fd uintptr) (done bool)
	out, in []byte
	phase   turnPhase
	n       int // bytes received
	errno   syscall.Errno
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
func (t *Turn) Init(c net.Conn) {
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := conn.SyscallConn(); err == nil {
		t.conn, t.raw, t.step = conn, raw, t.next
	}
}

// CanTake reports whether Take works for the connection.
func (t *Turn) CanTake() bool { return t.raw != nil }

// Take writes out and reads the beginning of the response into in. written tells how
// much of out was written: if there is no room for all of it, Take reads nothing and
// returns no error. The connection's read deadline limits the wait.
func (t *Turn) Take(out, in []byte) (written, n int, err error) {
	t.out, t.in, t.phase, t.n, t.errno = out, in, turnLooks, 0, 0
	err = t.raw.Read(t.step)
	written = len(out) - len(t.out)
	t.out, t.in = nil, nil
	switch {
	case t.phase == turnLooks && !errors.Is(err, os.ErrDeadlineExceeded):
		return 0, 0, ErrNotQuiet // or closed by this process
	case err != nil:
		return written, 0, err
	case t.errno == 0 || t.phase == turnWrites && t.errno == syscall.EAGAIN:
		return written, t.n, nil
	case t.phase == turnWrites:
		return written, 0, t.failed("write")
	}
	return written, 0, t.failed("read")
}

func (t *Turn) failed(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Source: t.conn.LocalAddr(), Addr: t.conn.RemoteAddr(), Err: os.NewSyscallError(op, t.errno)}
}

// next is the function for RawConn.Read, which calls it at once and, while it returns
// false, whenever something arrives. Events before the first call are forgotten, so
// that call has to look for what has arrived before.
func (t *Turn) next(fd uintptr) (done bool) {
	if t.phase == turnLooks {
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
	n, errno := sock.Recv(int(fd), t.in)
	if errno == syscall.EAGAIN {
		return false
	}
	t.n, t.errno, t.phase = n, errno, turnReceived
	return true
}
