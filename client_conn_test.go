package sluice

import (
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// stubConn is a connection without a peer. It tells what it was asked.
type stubConn struct {
	net.Conn
	told     []string
	writes   []int
	failAt   int    // the number of the Write that fails, from 1
	limitErr error  // of setting a deadline
	failing  string // the only deadline whose setting fails; "": all
}

var errStub = errors.New("stub")

func (c *stubConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	if len(c.writes) == c.failAt {
		return 7, errStub
	}
	return len(p), nil
}

func (c *stubConn) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func (c *stubConn) tell(what string, at time.Time) error {
	switch {
	case at.IsZero():
		what += " none"
	case at.Equal(clock.Past()):
		what += " past"
	default:
		what += " " + time.Until(at).String()
	}
	c.told = append(c.told, what)
	if !strings.HasPrefix(what, c.failing) {
		return nil
	}
	return c.limitErr
}

func (c *stubConn) SetDeadline(at time.Time) error { return c.tell("both", at) }

func (c *stubConn) SetReadDeadline(at time.Time) error { return c.tell("read", at) }

func (c *stubConn) SetWriteDeadline(at time.Time) error { return c.tell("write", at) }

func (c *stubConn) Close() error { c.told = append(c.told, "close"); return nil }
