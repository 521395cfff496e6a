package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A refusal whose body comes after the grace for writing: without any
// time-out, the deadline that has passed stays set for the reading of it.
func TestRefusalThatComesInPieces(t *testing.T) {
	wroteAll := make(chan struct{})
	var once sync.Once
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		_, _ = c.Br.ReadString('\n')
		c.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
		<-wroteAll
		c.Send("sorry")
		c.Gone()
	})
	c := p.Host()
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(h *hookedConn, b []byte) (int, error, bool) {
			n, err := h.Conn.Write(b)
			if err != nil {
				once.Do(func() { close(wroteAll) })
			}
			return n, err, true
		}
	})
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, 32<<20))
	within(t, "the upload", func() {
		if err := c.Do(req, resp); err != nil || resp.StatusCode() != 413 || string(resp.Body()) != "sorry" {
			t.Errorf("%v, %d %q", err, resp.StatusCode(), resp.Body())
		}
	})
	once.Do(func() { close(wroteAll) })
	checkPool(t, c, 0, 0)
}

// The second that a broken upload waits for an answer stays set as a deadline
// of the streamed body.
func TestRefusalAsStreamHasNoDeadline(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		_, _ = c.Br.ReadString('\n')
		c.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\n")
		go c.Gone()
		<-t.Context().Done()
	})
	c := p.Host()
	c.StreamResponseBody = true
	var conn *hookedConn
	written := 0
	hooked(c, func(h *hookedConn) {
		conn = h
		h.onWrite = func(_ *hookedConn, b []byte) (int, error, bool) {
			if written += len(b); written > uploadSize {
				return 0, syscall.EPIPE, true
			}
			return 0, nil, false
		}
	})
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, 2*uploadSize))
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if read, _ := conn.deadlines(); !read.IsZero() {
		t.Errorf("the stream is read with the deadline %v", read)
	}
	resp.Reset()
	checkPool(t, c, 0, 0)
}

// An interim response ends the watch: a refusal after it, by a server that
// neither reads on nor closes, is not noticed.
func TestRefusalBehindInterim(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		_, _ = c.Br.ReadString('\n')
		c.Send("HTTP/1.1 100 Continue\r\n\r\n")
		c.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		<-t.Context().Done()
	})
	c := p.Host()
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, 32<<20))
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	if err := c.DoContext(ctx, req, resp); err != nil || resp.StatusCode() != 413 || ctx.Err() != nil {
		t.Errorf("%v, %d; the context: %v", err, resp.StatusCode(), ctx.Err())
	}
}

// A body stream that fails by itself is not the server's doing: its error is
// returned at once, and not after refusalTime.
func TestErrorOfBodyStream(t *testing.T) {
	var stopped atomic.Bool
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Gone(); stopped.Store(true) })
	c := p.Host()
	mine := errors.New("my stream is broken")
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBodyStream(harness.ReaderFunc(func([]byte) (int, error) { return 0, mine }), -1)
	start := time.Now()
	err := c.Do(req, resp)
	if took := time.Since(start); !errors.Is(err, mine) || took >= refusalTime {
		t.Errorf("%v after %v", err, took)
	}
	checkPool(t, c, 0, 0)
}

// A server that answers while it reads, as a proxy or an echo does: the client
// must take the answer while it writes, or both wait for ever.
func TestAnswerWhileWriting(t *testing.T) {
	const size = 16 << 20
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for line, err := c.Br.ReadString('\n'); err == nil && line != "\r\n"; {
			line, err = c.Br.ReadString('\n')
		}
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", size))
		_, _ = io.CopyN(c.Conn, c.Br, size)
	})
	c := p.Host()
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBodyStream(bytes.NewReader(make([]byte, size)), size)
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	if err := c.DoContext(ctx, req, resp); err != nil || len(resp.Body()) != size {
		t.Errorf("%v, %d bytes", err, len(resp.Body()))
	}
}

// A server that answers while it reads, and a caller who wants the answer as a
// stream: the client does not read it before all is written, and neither side goes on. The
// writing is given up then, and the stream ends with an error: it must not look
// complete, nor wait.
func TestStreamWhileWriting(t *testing.T) {
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
func TestEarlySuccessGetsTheWholeBody(t *testing.T) {
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

// What is no HTTP is not waited for, although it is short.
func TestShortGarbageWhileWriting(t *testing.T) {
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
func TestStuckBodyStream(t *testing.T) {
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
func TestRefusalWithStuckBodyStream(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.SkipHead()
		c.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.Gone()
	})
	for name, begin := range map[string]string{"after a byte": "x", "before the first": ""} {
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

// TestUploadAfterTheAnswer: after an early answer the client goes on writing for as
// long as the server takes something within each refusalTime, and no longer.
func TestUploadAfterTheAnswer(t *testing.T) {
	const pieces = 16 // 256 KiB, the largest write, take half of refusalTime
	for name, reads := range map[string]int{"all is taken, slowly": pieces, "some is taken, then nothing": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := net.Pipe()
			defer server.Close()
			taken := make(chan int, 1)
			go func() {
				br := bufio.NewReaderSize(server, 16)
				for line, err := br.ReadString('\n'); err == nil && line != "\r\n"; {
					line, err = br.ReadString('\n')
				}
				go io.WriteString(server, harness.OKAnswer)
				got := 0
				for piece := make([]byte, uploadSize); got < reads; got++ {
					time.Sleep(refusalTime / 8)
					if _, err := io.ReadFull(br, piece); err != nil {
						break
					}
				}
				taken <- got
			}()
			c := &sluice.HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return client, nil }}
			req, resp := harness.NewCall("POST", "http://h/")
			req.SetBody(make([]byte, pieces*uploadSize))
			if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v, %q", err, resp.Body())
			}
			if got := <-taken; got != reads {
				t.Errorf("the server has taken %d pieces, want %d", got, reads)
			}
		})
	}
}

// TestRefusalLimitsWriting: after the head of a redirect, writing gets a deadline, although
// the body has not come.
func TestRefusalLimitsWriting(t *testing.T) {
	var conn atomic.Pointer[hookedConn]
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.SkipHead()
		c.Send("HTTP/1.1 300 Multiple Choices\r\nContent-Length: 2\r\n\r\n")
		for end := time.Now().Add(clientPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, write := conn.Load().deadlines(); !write.IsZero() {
				c.Send("ok")
				break
			}
		}
	})
	c := p.Host()
	hooked(c, func(h *hookedConn) { conn.Store(h) })
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, 64<<20)) // more than sockets hold
	within(t, "the upload", func() {
		if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
			t.Errorf("%v, %q", err, resp.Body())
		}
	})
}

// TestInterimAnswersFillTheBuffer: the final answer of an upload comes after more interim
// ones than the buffer holds. One that is too large by itself is an error.
func TestInterimAnswersFillTheBuffer(t *testing.T) {
	interim := "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 300) + ">\r\n\r\n"
	for _, head := range []string{strings.Repeat(interim, 10), "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 1100) + ">\r\n\r\n"} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.SkipHead()
			c.Send(head + harness.OKAnswer)
			c.Gone()
		})
		c := p.Host()
		c.ReadBufferSize = 1000
		req, resp := harness.NewCall("POST", p.URL("/"))
		req.SetBody(make([]byte, uploadSize))
		err := c.Do(req, resp)
		if isWhole := strings.HasPrefix(head, interim); isWhole != (err == nil) || isWhole && string(resp.Body()) != "ok" {
			t.Errorf("%d bytes of interim answers: %v, %q", len(head), err, resp.Body())
		}
	}
}
