package sluice

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// More of the review: what is sent while the answer comes. See
// client_review_test.go.

// A server that closes what it has just accepted has closed the connection, and
// sent nothing.
func TestReviewClosedAtOnce(t *testing.T) {
	closed := make(chan bool)
	p := newClientPeer(t, func(c *peerConn) { c.Close(); closed <- true })
	c := p.host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		<-closed
		if err == nil {
			cc := newClientConn(nc, addr)
			eventually(t, "the end has come", func() bool { return !cc.wire.IsQuiet() })
		}
		return nc, err
	}
	for _, method := range []string{"GET", "POST"} {
		req, resp := newCall(method, p.url("/"))
		if err := c.Do(req, resp); !errors.Is(err, ErrConnectionClosed) {
			t.Errorf("%s: %v", method, err)
		}
	}
	checkPool(t, c, 0, 0)
}

// GetTimeout is begun anew by resetTimeout as DoTimeout is.
func TestReviewResetTimeoutOfGet(t *testing.T) {
	var deadlines []int64
	c := &HostClient{
		Addr: "h:80",
		Transport: roundTripFunc(func(_ *HostClient, req *Request, _ *Response) (bool, error) {
			deadlines = append(deadlines, req.call.Deadline)
			return true, io.ErrUnexpectedEOF
		}),
		RetryIfErr: func(*Request, int, error) (bool, bool) { return true, true },
	}
	_, _, _ = c.GetTimeout(nil, "http://h/", time.Hour)
	if len(deadlines) != 5 || deadlines[4] <= deadlines[0] {
		t.Errorf("%v", deadlines)
	}
}
