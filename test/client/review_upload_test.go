package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A server that answers while it reads, and a caller who wants the answer as a
// stream: nobody reads it before all is written, and neither side goes on. The
// writing is given up then, and the stream ends with an error: it must not look
// complete, nor wait.
func TestReviewStreamWhileWriting(t *testing.T) {
	const size = 16 << 20
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.SkipHead()
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", size))
		_, _ = io.CopyN(c.Conn, c.Br, size)
	})
	c := p.Host()
	req, resp := harness.NewCall("POST", p.URL("/"))
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
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.SkipHead()
		c.Send(harness.OKAnswer)
		time.Sleep(3 * refusalGrace) // a slow reader
		n, _ := io.CopyN(io.Discard, c.Br, size)
		got.Store(n)
	})
	c := p.Host()
	req, resp := harness.NewCall("POST", p.URL("/"))
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
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.SkipHead()
			c.Send(raw)
			c.Gone()
		})
		c := p.Host()
		ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
		for _, size := range []int{1, uploadSize} {
			req, resp := harness.NewCall("POST", p.URL("/"))
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
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.SkipHead(); c.Gone() })
	for name, call := range map[string]func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error{
		"deadline": func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			return c.DoTimeout(req, resp, 50*time.Millisecond)
		},
		"context": doContextMillisecond,
	} {
		c := p.Host()
		req, resp := harness.NewCall("POST", p.URL("/"))
		req.SetBodyStream(pipeBody(t), -1)
		done := make(chan error, 1)
		go func() { done <- call(c, req, resp) }()
		select {
		case err := <-done:
			if !errors.Is(err, sluice.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
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
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.SkipHead()
		c.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.Gone()
	})
	for name, begin := range map[string]string{"behind a byte": "x", "before the first": ""} {
		t.Run(name, func(t *testing.T) {
			c := p.Host()
			req, resp := harness.NewCall("POST", p.URL("/"))
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
