//go:build unix

package supervise

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hasControl: workers can be talked to.
const hasControl = true

// errLinkFull: the other end does not read.
var errLinkFull = errors.New("sluice: control socket is full")

// link is one end of a control socket. Sending never waits. Sends may come from
// several goroutines, receiving is one goroutine's.
type link struct {
	file     *os.File
	raw      syscall.RawConn
	seq      atomic.Uint32
	buffer   []byte // of receive
	oob      []byte
	lastCall bool // hang up was called: receive what is there, don't wait
}

// newLink wraps a non-blocking socket.
func newLink(file *os.File) (*link, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &link{
		file:   file,
		raw:    raw,
		buffer: make([]byte, headSize+maxPayload),
		oob:    make([]byte, unix.CmsgSpace(maxDescriptors*4)),
	}, nil
}

// newLinkPair returns the master's end and the socket that the worker inherits.
func newLinkPair() (*link, *os.File, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		unix.Close(ours)
		unix.Close(theirs)
		return nil, nil, err
	}
	worker := os.NewFile(uintptr(theirs), "control")
	l, err := newLink(os.NewFile(uintptr(ours), "control"))
	if err != nil {
		worker.Close()
		return nil, nil, err
	}
	return l, worker, nil
}

// send sends m, with a new sequence number if it has none, and the files beside
// it.
func (l *link) send(m message, files []*os.File) error {
	if m.seq == 0 {
		m.seq = l.seq.Add(1)
	}
	var oob []byte
	if len(files) > 0 {
		descriptors := make([]int, 0, len(files))
		for _, f := range files {
			descriptors = append(descriptors, int(f.Fd()))
		}
		oob = unix.UnixRights(descriptors...)
	}
	packet := appendMessage(make([]byte, 0, headSize+len(m.payload)), m)
	var inner error
	err := l.raw.Control(func(fd uintptr) {
		for {
			inner = unix.Sendmsg(int(fd), packet, oob, nil, unix.MSG_DONTWAIT)
			if inner != unix.EINTR {
				return
			}
		}
	})
	if err == nil {
		err = inner
	}
	if err == unix.EAGAIN || err == unix.ENOBUFS {
		err = errLinkFull
	}
	return err
}

// receive waits for a message. Its payload is valid until the next call. The
// descriptors that came along are the caller's if messages of this kind have
// any; others are closed. Packets that are no messages are dropped.
func (l *link) receive() (message, []int, error) {
	for {
		size, descriptors, err := l.packet()
		if err != nil {
			return message{}, nil, err
		}
		m, err := parseMessage(l.buffer[:size])
		if err != nil || !m.kind.carriesDescriptors() {
			closeAll(descriptors)
			descriptors = nil
		}
		if err == nil {
			return m, descriptors, nil
		}
	}
}

// packet is what one read from a socket brought.
type packet struct {
	size        int // of what is in the link's buffer
	descriptors []int
	isCut       bool // it did not fit, or not all descriptors could be had
	err         error
}

// packet waits for a packet. Packets that did not fit have size 0, and what
// descriptors came with them.
func (l *link) packet() (size int, descriptors []int, err error) {
	var p packet
	if !l.lastCall {
		waitErr := l.raw.Read(func(fd uintptr) bool {
			p = l.take(fd)
			return p.err != unix.EAGAIN && p.err != unix.EINTR
		})
		if errors.Is(waitErr, os.ErrDeadlineExceeded) {
			l.lastCall = true
		} else if waitErr != nil {
			return 0, nil, waitErr
		}
	}
	if l.lastCall {
		if controlErr := l.raw.Control(func(fd uintptr) { p = l.take(fd) }); controlErr != nil {
			return 0, nil, controlErr
		}
	}
	switch {
	case p.err != nil:
		return 0, nil, p.err
	case p.size == 0 && len(p.descriptors) == 0 && !p.isCut:
		return 0, nil, io.EOF // nobody sends empty packets
	case p.isCut:
		return 0, p.descriptors, nil
	}
	return p.size, p.descriptors, nil
}

// take reads what is there and does not wait.
func (l *link) take(fd uintptr) (p packet) {
	// No child may be started between the arrival of descriptors and their
	// mark, where the system cannot mark them itself.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var oobSize, flags int
	p.size, oobSize, flags, _, p.err = unix.Recvmsg(int(fd), l.buffer, l.oob, unix.MSG_DONTWAIT|receiveFlags)
	if p.err == nil {
		p.descriptors = rights(l.oob[:oobSize])
		p.isCut = flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0
	}
	return p
}

// rights returns the descriptors in a control message, closed on exec.
func rights(oob []byte) []int {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range messages {
		descriptors, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range descriptors {
			unix.CloseOnExec(fd)
		}
		all = append(all, descriptors...)
	}
	return all
}

// closeAll closes descriptors.
func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

// hangUp makes receive return what is there already, then an error.
func (l *link) hangUp() { l.file.SetReadDeadline(time.Unix(1, 0)) }

// close closes the socket.
func (l *link) close() { l.file.Close() }
