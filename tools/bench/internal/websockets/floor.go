package websockets

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"

	gobwasws "github.com/gobwas/ws"
	"golang.org/x/sys/unix"
)

// A floorServer echoes by the system calls that are needed, and nothing else: one goroutine
// waits, reads and writes. It trusts its clients: each sends short texts, one at a time, and
// reads the answer.
type floorServer struct {
	mu    sync.Mutex
	conns map[int32]*floorConn
	poll  int
}

type floorConn struct {
	in  [readLimit]byte
	end int // of what was read
}

func newFloor() (*floorServer, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &floorServer{conns: map[int32]*floorConn{}, poll: poll}, err
}

// Serve implements server.
func (s *floorServer) Serve(ln net.Listener) error {
	go s.loop()
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		if err := s.add(c.(*net.TCPConn)); err != nil {
			return err
		}
	}
}

// add takes the socket of a connection from package net.
func (s *floorServer) add(c *net.TCPConn) error {
	defer c.Close()
	if _, err := gobwasws.Upgrade(c); err != nil {
		if errors.Is(err, io.EOF) { // a client that looks whether there is a server
			return nil
		}
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	if err := raw.Control(func(socket uintptr) { fd, err = unix.FcntlInt(socket, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conns[int32(fd)] = &floorConn{}
	s.mu.Unlock()
	return unix.EpollCtl(s.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (s *floorServer) loop() {
	runtime.LockOSThread()
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(s.poll, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic(err)
		}
		s.mu.Lock()
		for _, event := range events[:max(n, 0)] {
			if c := s.conns[event.Fd]; !c.serve(int(event.Fd)) {
				delete(s.conns, event.Fd)
				_ = unix.Close(int(event.Fd))
			}
		}
		s.mu.Unlock()
	}
}

// serve reads, and answers when there is a message. It reports whether there may be more.
func (c *floorConn) serve(fd int) bool {
	n, err := unix.Read(fd, c.in[c.end:])
	if err == unix.EAGAIN {
		return true
	}
	if n <= 0 {
		return false
	}
	c.end += n
	head, size := 2, int(c.in[1]&127)
	switch size {
	case 126:
		head, size = 4, int(binary.BigEndian.Uint16(c.in[2:]))
	case 127:
		head, size = 10, int(binary.BigEndian.Uint64(c.in[2:]))
	}
	if c.end < head+4+size {
		return true
	}
	payload := c.in[head+4:][:size]
	mask := binary.LittleEndian.Uint32(c.in[head:])
	wide := uint64(mask)<<32 | uint64(mask)
	at := 0
	for ; at+8 <= size; at += 8 {
		binary.LittleEndian.PutUint64(payload[at:], binary.LittleEndian.Uint64(payload[at:])^wide)
	}
	for ; at < size; at++ {
		payload[at] ^= byte(mask >> (8 * (at & 3)))
	}
	payload[0] ^= ' '
	out := c.in[4:][:head+size] // the head moves to where the mask was
	copy(out, c.in[:head])
	out[1] &^= 0x80
	c.end = 0
	n, err = unix.Write(fd, out)
	return err == nil && n == len(out)
}

// broadcast implements server.
func (s *floorServer) broadcast([]byte) (int, error) { return 0, errors.ErrUnsupported }
