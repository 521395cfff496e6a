package websockets

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const holdRole = "websocket hold"

// holdConfig is what a holder's process gets.
type holdConfig struct {
	Addr    string
	Conns   int
	Message []byte // a frame, which each connection sends once
	Answer  int    // bytes of the answer
}

// A holder has idle connections, and counts the bytes that come.
type holder struct {
	epoll int
	buf   []byte
}

const holdPatience = 60 * time.Second

// hold is the role of a holder's process: it makes the connections, lets each have an
// answer, and prints a line. For each line with a number it waits for so many bytes, and
// prints how many ns have passed between the first and the last.
func hold(text []byte) (err error) {
	var config holdConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	h := &holder{buf: make([]byte, 64<<10)}
	if h.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	for range config.Conns {
		if err := h.open(config); err != nil {
			return err
		}
	}
	fmt.Println("true")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		bytes, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		span, err := h.take(bytes)
		if err != nil {
			return err
		}
		fmt.Println(span.Nanoseconds())
	}
	return nil
}

// open makes a connection, whose first message is answered.
func (h *holder) open(config holdConfig) error {
	conn, err := net.Dial("tcp", config.Addr)
	if err != nil {
		return err
	}
	c := conn.(*net.TCPConn)
	defer c.Close() // a copy of the descriptor stays, without the runtime's poller
	if err := c.SetDeadline(time.Now().Add(holdPatience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(handshake)); err != nil {
		return err
	}
	if err := h.read(c, func(got []byte) bool { return bytes.HasSuffix(got, []byte("\r\n\r\n")) }); err != nil {
		return err
	}
	if _, err := c.Write(config.Message); err != nil {
		return err
	}
	if err := h.read(c, func(got []byte) bool { return len(got) == config.Answer }); err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	own, failure := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { own, failure = unix.Dup(int(fd)) }); err != nil || failure != nil {
		return errors.Join(err, failure)
	}
	return unix.EpollCtl(h.epoll, unix.EPOLL_CTL_ADD, own, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(own)})
}

// read reads until isWhole is true for what came.
func (h *holder) read(c *net.TCPConn, isWhole func(got []byte) bool) error {
	for n := 0; !isWhole(h.buf[:n]); {
		more, err := c.Read(h.buf[n:])
		if err != nil {
			return fmt.Errorf("%w after %.100q", err, h.buf[:n])
		}
		n += more
	}
	return nil
}

// take reads so many bytes from all connections, and returns the time from the first to the
// last.
func (h *holder) take(bytes int) (span time.Duration, err error) {
	events := make([]unix.EpollEvent, 512)
	var first time.Time
	for bytes > 0 {
		n, err := unix.EpollWait(h.epoll, events, int(holdPatience.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("%d bytes are missing", bytes)
		case first.IsZero():
			first = time.Now()
		}
		for _, e := range events[:n] {
			size, err := unix.Read(int(e.Fd), h.buf)
			if err != nil || size == 0 {
				return 0, fmt.Errorf("a connection has ended: %w", err)
			}
			bytes -= size
		}
	}
	if bytes < 0 {
		return 0, fmt.Errorf("%d bytes more than expected", -bytes)
	}
	return time.Since(first), nil
}
