//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/sock"
	"golang.org/x/sys/unix"
)

// A pollSource is a Source over poll(2), as simple as it goes: it is slow with many
// descriptors. poll(2) tells of states. So a pollSource reports each kind of event
// once, and then looks for it again when a call has found that there is no more.
type pollSource struct {
	sock.Calls
	mu      sync.Mutex
	pollers map[int]*poller // of each descriptor
}

func newPollSource() *pollSource { return &pollSource{pollers: make(map[int]*poller)} }

// Open implements Source, as the other methods do.
func (s *pollSource) Open() (Poller, error) {
	waker, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &poller{source: s, waker: waker, watched: make(map[int]*watch), ended: make(chan struct{})}, nil
}

func (s *pollSource) Accept(listener int, peer *sock.Address) (int, syscall.Errno) {
	fd, errno := sock.Accept(listener, peer)
	if errno == syscall.EAGAIN {
		s.want(listener, unix.POLLIN)
	}
	return fd, errno
}

func (s *pollSource) Backlog(listener int) int {
	s.want(listener, unix.POLLIN)
	return sock.Backlog(listener)
}

func (s *pollSource) Recv(fd int, p []byte) (int, syscall.Errno) {
	n, errno := s.Calls.Recv(fd, p)
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, 1) // see Peek; a detached socket keeps it
	if errno == syscall.EAGAIN || 0 < n && n < len(p) {
		s.want(fd, unix.POLLIN)
	}
	return n, errno
}

// Peek has the poller wait for more than what stays in the socket (SO_RCVLOWAT).
func (s *pollSource) Peek(fd int, p []byte) (int, syscall.Errno) {
	n, errno := sock.Peek(fd, p)
	if errno == syscall.EAGAIN || 0 < n && n < len(p) {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n+1)
		s.want(fd, unix.POLLIN)
	}
	return n, errno
}

func (s *pollSource) Send(fd int, p []byte, more bool) (int, syscall.Errno) {
	n, errno := s.Calls.Send(fd, p, more)
	if errno == syscall.EAGAIN {
		s.want(fd, unix.POLLOUT)
	}
	return n, errno
}

func (s *pollSource) SendBuffers(fd int, v *net.Buffers) (int64, syscall.Errno) {
	n, errno := sock.SendBuffers(fd, v)
	if errno == syscall.EAGAIN {
		s.want(fd, unix.POLLOUT)
	}
	return n, errno
}

func (s *pollSource) SendFile(fd int, f *os.File, offset, size int64) (int, error) {
	n, err := sock.SendFile(fd, f, offset, size)
	if err == syscall.EAGAIN {
		s.want(fd, unix.POLLOUT)
	}
	return n, err
}

// Close waits for the end of a poll(2) that is running: it would keep the socket
// open, and its loop would wait where closing waits (SO_LINGER).
func (s *pollSource) Close(fd int, _ bool) {
	if p := s.pollerOf(fd); p != nil {
		p.forget(fd)
		p.awaitReturn()
	}
	_ = syscall.Close(fd)
}

// want has fd's poller look for an event.
func (s *pollSource) want(fd int, event int16) {
	if p := s.pollerOf(fd); p != nil {
		p.want(fd, event)
	}
}

// pollerOf returns the poller of fd; nil if it was never added.
func (s *pollSource) pollerOf(fd int) *poller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pollers[fd]
}

// A watch is what a poller looks for on a descriptor.
type watch struct {
	token uint64
	wants int16
}

// A poller implements Poller.
type poller struct {
	source *pollSource
	waker  int // an eventfd: what is to be looked for has changed
	ended  chan struct{}

	mu       sync.Mutex
	watched  map[int]*watch
	isWoken  bool // and Run has not seen it yet
	isClosed bool
	polling  chan struct{} // closed when the poll(2) that is running has returned; nil: none is

	// What Run looks for, and the tokens of that.
	fds    []unix.PollFd
	tokens []uint64
	events []Event
}

// Run implements Poller, as the other methods do.
func (p *poller) Run(pass func([]Event) Then, serve func(begins bool) Then) {
	isLost := false
	defer func() {
		if !isLost {
			close(p.ended)
		}
	}()
	for timeout := -1; p.fill(); {
		if _, err := unix.Poll(p.fds, timeout); err != nil && err != syscall.EINTR {
			panic(err)
		}
		p.collect()
		timeout = -1
		then := pass(p.events)
		if then == Serve {
			isLost = true // if serve does not return
			then = serve(true)
			if isLost = then == Lost; isLost {
				return
			}
		}
		if then == Again {
			timeout = 0
		}
	}
}

// fill makes the list of what is looked for. False: p is closed.
func (p *poller) fill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fds = append(p.fds[:0], unix.PollFd{Fd: int32(p.waker), Events: unix.POLLIN})
	p.tokens = append(p.tokens[:0], 0)
	for fd, w := range p.watched {
		if w.wants != 0 {
			p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: w.wants})
			p.tokens = append(p.tokens, w.token)
		}
	}
	if p.isClosed {
		return false
	}
	p.polling = make(chan struct{})
	return true
}

// awaitReturn ends the poll(2) that is running, if there is one.
func (p *poller) awaitReturn() {
	p.mu.Lock()
	polling := p.polling
	if polling != nil {
		_ = p.wakeLocked()
	}
	p.mu.Unlock()
	if polling != nil {
		<-polling
	}
}

// collect makes events of what poll(2) has found.
func (p *poller) collect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.polling)
	p.polling = nil
	if p.fds[0].Revents != 0 {
		_, _ = syscall.Read(p.waker, make([]byte, 8))
		p.isWoken = false
	}
	p.events = p.events[:0]
	for i, found := range p.fds[1:] {
		fd, token := int(found.Fd), p.tokens[i+1]
		w := p.watched[fd]
		if found.Revents == 0 || w == nil || w.token != token {
			continue // or the descriptor is another one's by now
		}
		w.wants &^= found.Revents
		if found.Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
			w.wants = 0 // these need not be asked for, and would come for ever
		}
		p.events = append(p.events, Event{token, flagsOf(found.Revents)})
	}
}

func flagsOf(found int16) (flags uint64) {
	if found&unix.POLLIN != 0 {
		flags |= Input
	}
	if found&unix.POLLOUT != 0 {
		flags |= Output
	}
	if found&unix.POLLRDHUP != 0 {
		flags |= Gone
	}
	if found&(unix.POLLHUP|unix.POLLERR) != 0 {
		flags |= Output | Gone
	}
	return flags
}

func (p *poller) Add(fd int, token uint64) error {
	p.source.mu.Lock()
	p.source.pollers[fd] = p
	p.source.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched[fd] = &watch{token, unix.POLLIN | unix.POLLOUT | unix.POLLRDHUP}
	return p.wakeLocked()
}

func (p *poller) Remove(fd int) {
	p.forget(fd)
	_ = p.Wake()
}

func (p *poller) forget(fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watched, fd)
}

func (p *poller) want(fd int, event int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.watched[fd]; w != nil && w.wants&event == 0 {
		w.wants |= event
		_ = p.wakeLocked()
	}
}

func (p *poller) Wake() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wakeLocked()
}

func (p *poller) wakeLocked() error {
	if p.isClosed {
		return os.ErrClosed
	}
	if p.isWoken {
		return nil
	}
	p.isWoken = true
	_, err := syscall.Write(p.waker, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

func (p *poller) Close() error {
	p.mu.Lock()
	err := p.wakeLocked()
	p.isClosed = true
	p.mu.Unlock()
	<-p.ended
	_ = syscall.Close(p.waker)
	return err
}
