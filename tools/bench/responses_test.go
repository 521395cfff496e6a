package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

var errResponse = errors.New("unexpected response")

// A responseCounter counts the responses in a connection's output and checks
// them. All answers of a server have one length here, which the first one
// tells; from then on counting costs a few compares per response.
type responseCounter struct {
	size   int    // bytes of a response; 0: not known yet
	offset int    // bytes of the current response that have come
	first  []byte // the first response while it is incomplete
}

// add takes the next bytes that the server wrote and returns how many responses
// they complete.
func (c *responseCounter) add(p []byte) (completed int, err error) {
	if c.size == 0 {
		c.first = append(c.first, p...)
		if c.size, err = responseSize(c.first); c.size == 0 || err != nil {
			return 0, err
		}
		p = c.first
	}
	for len(p) > 0 {
		n := min(len(p), c.size-c.offset)
		if err := c.check(p[:n]); err != nil {
			return completed, err
		}
		c.offset += n
		if c.offset == c.size {
			c.offset = 0
			completed++
		}
		p = p[n:]
	}
	return completed, nil
}

// check compares the status line and the body where p holds them.
func (c *responseCounter) check(p []byte) error {
	const statusLine = "HTTP/1.1 200 OK\r\n"
	if c.offset == 0 && len(p) >= len(statusLine) && string(p[:len(statusLine)]) != statusLine {
		return fmt.Errorf("%w: %q", errResponse, p)
	}
	if len(p) == c.size && string(p[len(p)-len(peers.Body):]) != peers.Body {
		return fmt.Errorf("%w: %q", errResponse, p)
	}
	return nil
}

// responseSize returns the length of the response that p begins with, 0 if its
// head is not complete.
func responseSize(p []byte) (int, error) {
	head, _, complete := bytes.Cut(p, []byte("\r\n\r\n"))
	if !complete {
		return 0, nil
	}
	_, rest, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	n, err := strconv.Atoi(string(value))
	if !found || err != nil || n != len(peers.Body) {
		return 0, fmt.Errorf("%w: %q", errResponse, p)
	}
	return len(head) + 4 + n, nil
}
