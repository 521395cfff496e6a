package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/bench/internal/latency"
	"github.com/sluicehttp/sluice/bench/internal/peers"
)

// A client is the connections of a load, driven by one thread that waits for
// all of them at once.
type client struct {
	load
	poller  int
	request []byte
	conns   []*conn
	byFD    map[int32]*conn
	idle    []*conn // with Rate: have no request under way
	buf     []byte

	server, source unix.SockaddrInet4

	requests int
	over     bool // no further requests
	busy     int  // requests under way
	answered latency.Histogram
}

// A conn is a connection, or with Close one after the other.
type conn struct {
	fd  int
	got []byte    // of an answer
	due time.Time // of the request that is under way
}

// newClient opens the connections. All but those of a load with Close have had
// an answer when it returns.
func newClient(l load) (*client, error) {
	c := &client{load: l, byFD: make(map[int32]*conn), buf: make([]byte, 4096)}
	closing := ""
	if l.Close {
		closing = "Connection: close\r\n"
	}
	c.request = []byte("GET / HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: prefork\r\n" + closing + "\r\n")
	server, err := netip.ParseAddrPort(l.Addr)
	if err != nil {
		return nil, err
	}
	source, err := netip.ParseAddr(l.Source)
	if err != nil {
		return nil, err
	}
	c.server = unix.SockaddrInet4{Port: int(server.Port()), Addr: server.Addr().As4()}
	c.source = unix.SockaddrInet4{Addr: source.As4()}
	if c.poller, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	for range l.Conns {
		k := new(conn)
		c.conns = append(c.conns, k)
		if l.Close {
			continue
		}
		if err := c.connect(k); err != nil {
			return nil, err
		}
	}
	if l.Close {
		return c, nil
	}
	return c, c.warmUp()
}

// warmUp gets an answer on each connection.
func (c *client) warmUp() error {
	for _, k := range c.conns {
		if err := c.ask(k, time.Now()); err != nil {
			return err
		}
	}
	c.over = true
	if err := c.drain(); err != nil {
		return err
	}
	c.over, c.idle, c.requests, c.answered = false, nil, 0, latency.Histogram{}
	return nil
}

func (c *client) connect(k *conn) (err error) {
	k.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	// The port is chosen by connect, which knows the other end and so has more
	// to choose from.
	for _, option := range [][2]int{{unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT}, {unix.IPPROTO_TCP, unix.TCP_NODELAY}} {
		if err := unix.SetsockoptInt(k.fd, option[0], option[1], 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(k.fd, &c.source); err != nil {
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Connect(k.fd, &c.server) }); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := unix.SetNonblock(k.fd, true); err != nil {
		return err
	}
	c.byFD[int32(k.fd)] = k
	return unix.EpollCtl(c.poller, unix.EPOLL_CTL_ADD, k.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(k.fd)})
}

func ignoringEINTR(f func() error) (err error) {
	for {
		if err = f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// run puts the load on the server and closes the connections.
func (c *client) run() (loadResult, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Now()
	var err error
	if c.Rate > 0 {
		err = c.paced(begin)
	} else {
		err = c.closedLoop(begin)
	}
	elapsed := time.Since(begin)
	if err == nil {
		c.over = true
		err = c.drain()
	}
	for _, k := range c.conns {
		if k.fd > 0 {
			// No TIME_WAIT: it would keep ports from the next load.
			_ = unix.SetsockoptLinger(k.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			unix.Close(k.fd)
		}
	}
	unix.Close(c.poller)
	return loadResult{Requests: c.requests, Elapsed: elapsed, P50: c.answered.Percentile(50), P99: c.answered.Percentile(99)}, err
}

// closedLoop sends a connection's next request when its last one was answered.
func (c *client) closedLoop(begin time.Time) error {
	for _, k := range c.conns {
		if err := c.next(k, time.Now()); err != nil {
			return err
		}
	}
	for end := begin.Add(c.Duration); time.Now().Before(end); {
		if err := c.take(time.Until(end)); err != nil {
			return err
		}
	}
	return nil
}

// paced sends requests at their times, on the connections that wait longest. If
// none is free, requests are late, which their latency shows.
func (c *client) paced(begin time.Time) error {
	c.idle = append(c.idle, c.conns...)
	period := time.Second / time.Duration(c.Rate)
	due, end := begin, begin.Add(c.Duration)
	for {
		now := time.Now()
		if !now.Before(end) {
			return nil
		}
		for ; !due.After(now) && len(c.idle) > 0; due = due.Add(period) {
			k := c.idle[0]
			c.idle = append(c.idle[:0], c.idle[1:]...)
			if err := c.ask(k, due); err != nil {
				return err
			}
		}
		pause := time.Until(due)
		if len(c.idle) == 0 {
			pause = time.Until(end)
		}
		if err := c.take(max(pause, 0)); err != nil {
			return err
		}
	}
}

// next sends the next request of k, on a new connection if need be.
func (c *client) next(k *conn, due time.Time) error {
	if c.Close {
		if err := c.connect(k); err != nil {
			return err
		}
	}
	return c.ask(k, due)
}

func (c *client) ask(k *conn, due time.Time) error {
	k.due, k.got = due, k.got[:0]
	c.busy++
	if n, err := unix.Write(k.fd, c.request); err != nil || n != len(c.request) {
		return fmt.Errorf("wrote %d bytes: %w", n, err)
	}
	return nil
}

// drain takes what is under way.
func (c *client) drain() error {
	const patience = 10 * time.Second
	for end := time.Now().Add(patience); c.busy > 0; {
		if time.Now().After(end) {
			return fmt.Errorf("%d requests were not answered", c.busy)
		}
		if err := c.take(time.Second); err != nil {
			return err
		}
	}
	return nil
}

// take waits for answers, and takes those that are there.
func (c *client) take(patience time.Duration) error {
	var events [64]unix.EpollEvent
	wait := int(patience.Milliseconds())
	if c.Rate > 0 { // milliseconds are too coarse
		limit := unix.NsecToTimespec(patience.Nanoseconds())
		if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(c.poller), Events: unix.POLLIN}}, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		wait = 0
	}
	n, err := unix.EpollWait(c.poller, events[:], wait)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, event := range events[:n] {
		if err := c.read(c.byFD[event.Fd]); err != nil {
			return err
		}
	}
	return nil
}

// read reads a part of an answer, or the whole of it.
func (c *client) read(k *conn) error {
	n, err := unix.Read(k.fd, c.buf)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case n > 0:
		k.got = append(k.got, c.buf[:n]...)
		if c.Close || !bytes.HasSuffix(k.got, []byte(peers.Body)) {
			return nil
		}
	case !c.Close:
		return errors.New("the server has closed a connection")
	default:
		delete(c.byFD, int32(k.fd))
		unix.Close(k.fd)
		k.fd = 0
	}
	return c.complete(k)
}

// complete takes an answer and goes on.
func (c *client) complete(k *conn) error {
	if !bytes.HasPrefix(k.got, []byte("HTTP/1.1 200 ")) || !bytes.HasSuffix(k.got, []byte(peers.Body)) {
		return fmt.Errorf("unexpected answer: %q", k.got)
	}
	now := time.Now()
	c.busy--
	c.requests++
	c.answered.Record(now.Sub(k.due))
	if c.Rate > 0 {
		c.idle = append(c.idle, k)
		return nil
	}
	if c.over {
		return nil
	}
	return c.next(k, now)
}
