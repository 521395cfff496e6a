package client_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
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

// The buffers that custom RoundTrippers get have the sizes of the fields, and come from
// the pools without what the last user left.
func TestClientBuffers(t *testing.T) {
	for _, c := range []*sluice.HostClient{{}, {ReadBufferSize: 100, WriteBufferSize: 200}, {}} {
		read, write := 4096, 4096
		if c.ReadBufferSize > 0 {
			read, write = 100, 200
		}
		for range 3 {
			stub := &stubConn{}
			br, bw := c.AcquireReader(stub), c.AcquireWriter(stub)
			if br.Size() != read || bw.Size() != write || br.Buffered() != 0 || bw.Buffered() != 0 {
				t.Fatalf("sizes %d and %d, %d and %d bytes in them", br.Size(), bw.Size(), br.Buffered(), bw.Buffered())
			}
			if _, err := br.ReadByte(); err != os.ErrDeadlineExceeded {
				t.Errorf("reads from another: %v", err)
			}
			_, _ = bw.WriteString("one")
			if err := bw.Flush(); err != nil || !slices.Equal(stub.writes, []int{3}) {
				t.Errorf("%v, %v", err, stub.writes)
			}
			_, _ = bw.WriteString("rest")
			c.ReleaseReader(br)
			c.ReleaseWriter(bw)
			if bw.Buffered() != 0 {
				t.Error("a pooled writer has bytes")
			}
		}
	}
}
