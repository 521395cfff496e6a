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

// hasControl: workers have a control socket.
const hasControl = true

// errLinkFull: the other end does not read.
var errLinkFull = errors.New("sluice: control socket is full")

const (
	// flightPatience bounds the wait for the user's descriptors that are in flight: sent by any of its
	// processes, and not received.
	flightPatience = 100 * time.Millisecond
	// flightPause is between two attempts.
	flightPause = 2 * time.Millisecond
)

// link is one end of a control socket. Sending never waits for the other end, and any goroutine may
// send. Only one goroutine may receive.
type link struct {
	file     *os.File
	raw      syscall.RawConn
	seq      atomic.Uint32
	buffer   []byte // the last packet received
	oob      []byte
	lastCall bool // hangUp was called: receive what is pending, do not wait
}

// newLink returns a link on a non-blocking socket.
func newLink(file *os.File) *link {
	raw, _ := file.SyscallConn() // fails only if file is nil
	return &link{
		file:   file,
		raw:    raw,
		buffer: make([]byte, headSize+maxPayload),
		oob:    make([]byte, unix.CmsgSpace(maxDescriptors*4)),
	}
}

// newLinkPair returns the master's end and the socket that the worker inherits.
func newLinkPair() (*link, *os.File, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, nil, err
	}
	return newLink(inherited(ours, "control")), os.NewFile(uintptr(theirs), "control"), nil
}

// heldLink returns the link whose socket a Holder has kept.
func heldLink(kept []*os.File) (*link, error) {
	defer closeFiles(kept)
	if len(kept) != 1 {
		return nil, errors.New("sluice: a worker's control socket is not held")
	}
	fd, err := unix.FcntlInt(kept[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return newLink(inherited(fd, "control")), nil
}

// files returns the socket, which stays the link's.
func (l *link) files() []*os.File { return []*os.File{l.file} }

// send sends m and files. It sets m's sequence number if that is 0.
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
		for began := time.Now(); ; {
			inner = unix.Sendmsg(int(fd), packet, oob, nil, unix.MSG_DONTWAIT)
			switch {
			case inner == unix.EINTR:
			case inner == unix.ETOOMANYREFS && time.Since(began) < flightPatience:
				time.Sleep(flightPause)
			default:
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

// receive waits for a message. Its payload is valid until the next call. The caller
// owns the descriptors, which only some kinds of messages have; unexpected ones are
// closed, and so are those of a message that lacks some. Packets that are not valid messages
// are dropped.
func (l *link) receive() (message, []int, error) {
	for {
		p := l.packet()
		if p.err != nil {
			return message{}, nil, p.err
		}
		m, err := parseMessage(l.buffer[:p.size])
		isMessage := err == nil && (!p.isCut || p.lacksDescriptors)
		m.lacksDescriptors = p.lacksDescriptors
		if !isMessage || m.lacksDescriptors || !m.kind.carriesDescriptors() {
			closeAll(p.descriptors)
			p.descriptors = nil
		}
		if isMessage {
			return m, p.descriptors, nil
		}
	}
}

// packet is the result of one read from a socket.
type packet struct {
	size        int // of the data in the link's buffer
	descriptors []int
	isCut       bool // it did not fit, or descriptors were lost
	// lacksDescriptors tells that only descriptors did not fit: this process has too many.
	lacksDescriptors bool
	err              error
}

// packet waits for a packet.
func (l *link) packet() (p packet) {
	if !l.lastCall {
		waitErr := l.raw.Read(func(fd uintptr) bool {
			p = l.take(fd)
			return p.err != unix.EAGAIN && p.err != unix.EINTR
		})
		if errors.Is(waitErr, os.ErrDeadlineExceeded) {
			l.lastCall = true
		} else if waitErr != nil {
			p.err = waitErr
		}
	}
	if l.lastCall {
		if controlErr := l.raw.Control(func(fd uintptr) { p = l.take(fd) }); controlErr != nil {
			p.err = controlErr
		}
	}
	if p.err == nil && p.size == 0 && len(p.descriptors) == 0 {
		p.err = io.EOF // peers never send empty packets
	}
	return p
}

// take reads a packet that is pending. It does not wait.
func (l *link) take(fd uintptr) (p packet) {
	// Where the system cannot set close-on-exec on arriving descriptors, no child may
	// be started before rights does.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var oobSize, flags int
	p.size, oobSize, flags, _, p.err = unix.Recvmsg(int(fd), l.buffer, l.oob, unix.MSG_DONTWAIT|receiveFlags)
	if p.err == nil {
		p.descriptors = rights(l.oob[:oobSize])
		p.isCut = flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0
		p.lacksDescriptors = flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) == unix.MSG_CTRUNC && len(p.descriptors) < maxDescriptors
	}
	return p
}

// rights returns the descriptors in a control message and sets close-on-exec on them.
func rights(oob []byte) []int {
	messages, _ := unix.ParseSocketControlMessage(oob) // made by the kernel, so they are well-formed
	var all []int
	for i := range messages {
		descriptors, _ := unix.ParseUnixRights(&messages[i]) // none in messages of other types
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

// hangUp makes receive return what is pending, then an error.
func (l *link) hangUp() { l.file.SetReadDeadline(time.Unix(1, 0)) }

// close closes the socket.
func (l *link) close() { l.file.Close() }
