package load

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/bench/internal/latency"
)

// A plainClient drives its connections with one thread that waits for all of
// them at once.
type plainClient struct {
	Load
	poller int
	batch  []byte
	conns  map[int32]*conn
	buf    []byte
	server unix.SockaddrInet4

	events [512]unix.EpollEvent // of one wait
	idle   []*conn              // with Rate: have no request under way

	opened   int
	busy     int  // connections with requests under way
	over     bool // no further requests
	result   Result
	answered latency.Histogram
}

// A conn is a connection, or with Close one after the other.
type conn struct {
	fd   int
	left int // responses that are still to come
	got  int // bytes of the next one
	busy bool
	sent time.Time
}

// newPlainClient opens the connections. All but those of a load with Close have
// had two answers when it returns.
func newPlainClient(l Load) (driver, error) {
	const buffer = 256 << 10
	c := &plainClient{Load: l, batch: l.batch(), conns: make(map[int32]*conn), buf: make([]byte, buffer)}
	server, err := netip.ParseAddrPort(l.Addr)
	if err != nil {
		return nil, err
	}
	c.server = unix.SockaddrInet4{Port: int(server.Port()), Addr: server.Addr().As4()}
	if c.poller, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	runtime.LockOSThread()
	if l.Close {
		return c, nil
	}
	for range l.Conns {
		if err := c.open(new(conn)); err != nil {
			return nil, err
		}
	}
	for range 2 {
		if _, err := c.lap(0); err != nil {
			return nil, err
		}
		if c.result.Failures > 0 {
			return nil, errors.New(c.result.FirstFailure)
		}
	}
	c.answered = latency.Histogram{}
	return c, nil
}

// open opens a connection. Over loopback connect does not wait.
func (c *plainClient) open(cn *conn) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	source := unix.SockaddrInet4{Addr: netip.MustParseAddr(c.source(c.opened)).As4()}
	c.opened++
	// The choice of the port is left to connect, which knows the other end.
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.Bind(fd, &source))
	if err == nil {
		err = unix.Connect(fd, &c.server)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		err = unix.EpollCtl(c.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("a connection from %v: %w", netip.AddrFrom4(source.Addr), err), unix.Close(fd))
	}
	*cn = conn{fd: fd}
	c.conns[int32(fd)] = cn
	return nil
}

func (c *plainClient) run() (Result, error) {
	c.result = Result{}
	elapsed, err := c.lap(c.Duration)
	failures, first := c.result.Failures, c.result.FirstFailure
	r := summary(&c.answered, elapsed)
	r.Failures, r.FirstFailure = failures, first
	return r, err
}

// lap has every connection send requests until the time is over, and at least
// once; it waits for all answers.
func (c *plainClient) lap(duration time.Duration) (time.Duration, error) {
	begin := time.Now()
	c.over = duration == 0
	var err error
	if c.Rate > 0 && !c.over {
		err = c.pace(begin, duration)
	} else {
		err = c.begin()
	}
	if err != nil {
		return 0, err
	}
	for c.busy > 0 {
		some, err := c.take(patience)
		if err != nil {
			return 0, err
		}
		if !some {
			return 0, fmt.Errorf("%d connections wait for an answer for %v", c.busy, patience)
		}
		if time.Since(begin) >= duration {
			c.over = true
		}
	}
	return time.Since(begin), nil
}

// take serves the connections for which something has come, or comes within
// some milliseconds. False: nothing did.
func (c *plainClient) take(wait time.Duration) (some bool, err error) {
	n, err := unix.EpollWait(c.poller, c.events[:], int(wait/time.Millisecond))
	if errors.Is(err, unix.EINTR) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("epoll_wait: %w", err)
	}
	for _, event := range c.events[:n] {
		if err := c.serve(c.conns[event.Fd]); err != nil {
			return false, err
		}
	}
	return n > 0, nil
}

// begin has every connection send its first requests.
func (c *plainClient) begin() error {
	if c.Close {
		for range c.Conns {
			if err := c.again(new(conn)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, cn := range slices.Collect(maps.Values(c.conns)) { // replacements of failed ones send by themselves
		if err := c.send(cn, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// again opens a connection and sends on it.
func (c *plainClient) again(cn *conn) error {
	begin := time.Now()
	if err := c.open(cn); err != nil {
		return err
	}
	return c.send(cn, begin)
}

func (c *plainClient) send(cn *conn, begin time.Time) error {
	cn.sent, cn.left, cn.busy = begin, max(c.Depth, 1), true
	c.busy++
	if n, err := unix.Write(cn.fd, c.batch); err != nil || n < len(c.batch) {
		return c.fail(cn, fmt.Errorf("write: %d of %d bytes, %w", n, len(c.batch), err))
	}
	return nil
}

// serve takes what has come for a connection.
func (c *plainClient) serve(cn *conn) error {
	n, err := unix.Read(cn.fd, c.buf)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err == nil && n > 0:
		err = c.count(cn, c.buf[:n])
	case err == nil && c.Close && cn.left == 0:
		c.drop(cn)
		if c.over {
			return nil
		}
		return c.again(cn)
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return c.fail(cn, err)
	}
	if cn.left > 0 || c.Close {
		return nil
	}
	c.rest(cn)
	switch {
	case c.Rate > 0:
		c.idle = append(c.idle, cn)
		return nil
	case c.over:
		return nil
	}
	return c.send(cn, time.Now())
}

// count counts the responses that end in data.
func (c *plainClient) count(cn *conn, data []byte) error {
	now := time.Now()
	for len(data) > 0 {
		if cn.got < len(statusLine) {
			for i := cn.got; i < min(cn.got+len(data), len(statusLine)); i++ {
				if data[i-cn.got] != statusLine[i] {
					return errStatus
				}
			}
		}
		part := min(len(data), c.Size-cn.got)
		cn.got += part
		data = data[part:]
		if cn.got < c.Size {
			continue
		}
		if cn.left == 0 {
			return errors.New("a response without a request")
		}
		cn.got = 0
		cn.left--
		c.answered.Record(now.Sub(cn.sent))
	}
	return nil
}

// rest says that a connection has no request under way.
func (c *plainClient) rest(cn *conn) {
	if cn.busy {
		cn.busy = false
		c.busy--
	}
}

// drop closes a connection whose requests have an answer, or none to come.
func (c *plainClient) drop(cn *conn) {
	delete(c.conns, int32(cn.fd))
	unix.Close(cn.fd)
	c.rest(cn)
}

// fail replaces a connection.
func (c *plainClient) fail(cn *conn, reason error) error {
	c.result.Failures++
	if c.result.FirstFailure == "" {
		c.result.FirstFailure = reason.Error()
	}
	wasBusy := cn.busy
	c.drop(cn)
	const most = 1000
	if c.over || c.result.Failures > most {
		c.over = true
		return nil
	}
	if c.Rate == 0 {
		return c.again(cn)
	}
	if wasBusy { // otherwise it is among the idle ones
		c.idle = append(c.idle, cn)
	}
	return c.open(cn)
}

func (c *plainClient) close() {
	for _, cn := range c.conns {
		linger := unix.Linger{Onoff: 1} // leaves no connection in TIME_WAIT
		_ = unix.SetsockoptLinger(cn.fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger)
		unix.Close(cn.fd)
	}
	unix.Close(c.poller)
}
