package sluice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// More of the review: what is sent while the answer comes. See
// client_review_test.go.

// skipHead reads the head of a request, and not its body.
func (c *peerConn) skipHead() {
	for line, err := c.br.ReadString('\n'); err == nil && line != "\r\n"; {
		line, err = c.br.ReadString('\n')
	}
}

// A server that answers while it reads, and a caller who wants the answer as a
// stream: nobody reads it before all is written, and neither side goes on. The
// writing is given up then, and the stream ends with an error: it must not look
// complete, nor wait.
func TestReviewStreamWhileWriting(t *testing.T) {
	const size = 16 << 20
	p := newClientPeer(t, func(c *peerConn) {
		c.skipHead()
		c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", size))
		_, _ = io.CopyN(c.Conn, c.br, size)
	})
	c := p.host()
	req, resp := newCall("POST", p.url("/"))
	req.SetBodyStream(bytes.NewReader(make([]byte, size)), size)
	resp.StreamBody = true
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	if err := c.DoContext(ctx, req, resp); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.BodyStream()); n != size && err == nil || ctx.Err() != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A 2xx that comes before the body was read is no refusal: a server that goes
// on reading must get all of it, or the caller an error.
func TestReviewEarlySuccessGetsTheWholeBody(t *testing.T) {
	const size = 32 << 20
	var got atomic.Int64
	p := newClientPeer(t, func(c *peerConn) {
		c.skipHead()
		c.send(okAnswer)
		time.Sleep(3 * refusalGrace) // a slow reader
		n, _ := io.CopyN(io.Discard, c.br, size)
		got.Store(n)
	})
	c := p.host()
	req, resp := newCall("POST", p.url("/"))
	req.SetBody(make([]byte, size))
	err := c.Do(req, resp)
	eventually(t, "the peer has read", func() bool { return got.Load() > 0 })
	if err == nil && got.Load() != size {
		t.Errorf("no error, status %d, and the server got %d of %d bytes", resp.StatusCode(), got.Load(), size)
	}
}

// What is no HTTP must not be waited behind, because it is short.
func TestReviewShortGarbageWhileWriting(t *testing.T) {
	for _, raw := range []string{"garbage\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n", "HTTP/1.1 1\r\n", "x\r\n"} {
		p := newClientPeer(t, func(c *peerConn) {
			c.skipHead()
			c.send(raw)
			c.gone()
		})
		c := p.host()
		ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
		for _, size := range []int{1, uploadSize} {
			req, resp := newCall("POST", p.url("/"))
			req.SetBody(make([]byte, size))
			if err := c.DoContext(ctx, req, resp); err == nil || ctx.Err() != nil {
				t.Errorf("%q, %d bytes: %v", raw, size, err)
			}
		}
		cancel()
		checkPool(t, c, 0, 0)
	}
}

// pipeBody returns a body stream that waits, and can be closed.
func pipeBody(t *testing.T) io.ReadCloser {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

// A body stream that waits for its source must not make the call outlast its
// time: a stream that can be closed is closed, which ends its Read.
func TestReviewStuckBodyStream(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) { c.skipHead(); c.gone() })
	for name, call := range map[string]func(c *HostClient, req *Request, resp *Response) error{
		"deadline": func(c *HostClient, req *Request, resp *Response) error {
			return c.DoTimeout(req, resp, 50*time.Millisecond)
		},
		"context": doContextMillisecond,
	} {
		c := p.host()
		req, resp := newCall("POST", p.url("/"))
		req.SetBodyStream(pipeBody(t), -1)
		done := make(chan error, 1)
		go func() { done <- call(c, req, resp) }()
		select {
		case err := <-done:
			if !errors.Is(err, ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(clientPatience):
			t.Errorf("%s: it hangs", name)
		}
	}
}

// The same where the server has refused: a proxy's client that stalls must not
// keep the refusal from it. That the head is sent before the body begins is what
// makes the server speak at all.
func TestReviewRefusalWithStuckBodyStream(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) {
		c.skipHead()
		c.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.gone()
	})
	for name, begin := range map[string]string{"behind a byte": "x", "before the first": ""} {
		t.Run(name, func(t *testing.T) {
			c := p.host()
			req, resp := newCall("POST", p.url("/"))
			stuck := pipeBody(t)
			req.SetBodyStream(struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader(begin), stuck), stuck}, -1)
			done := make(chan error, 1)
			go func() { done <- c.Do(req, resp) }()
			select {
			case err := <-done:
				if err != nil || resp.StatusCode() != 413 {
					t.Errorf("%v, %d", err, resp.StatusCode())
				}
			case <-time.After(clientPatience):
				t.Error("it hangs")
			}
		})
	}
}

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
