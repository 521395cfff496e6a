package client_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/bodystream"
	"github.com/sluicehttp/sluice/test/harness"
)

// streamed sends a request and returns the response with its stream.
func streamed(t *testing.T, c *sluice.HostClient, method string) *sluice.Response {
	t.Helper()
	req, resp := harness.NewCall(method, "http://"+c.Addr+"/")
	resp.StreamBody = true
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	return resp
}

const (
	sizedHello   = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	chunkedHello = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-End: yes\r\n\r\n"
	closedHello  = "HTTP/1.1 200 OK\r\n\r\nhello"
)

// A body's stream can be closed with the reason. Its connection is only used again
// if there is none and the body was there.
func TestStreamClosesWithError(t *testing.T) {
	for _, test := range []struct {
		read   int
		err    error
		reuses bool
	}{
		{5, nil, true}, {5, io.ErrNoProgress, false}, {2, nil, false}, {2, io.ErrNoProgress, false}, {0, nil, false},
	} {
		p := harness.NewClientPeer(t, answering(sizedHello))
		c := p.Host()
		resp := streamed(t, c, "GET")
		s, ok := resp.BodyStream().(sluice.ReadCloserWithError)
		if !ok {
			t.Fatalf("%T is no ReadCloserWithError", resp.BodyStream())
		}
		if _, err := io.ReadFull(s, make([]byte, test.read)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.CloseWithError(test.err); err != nil {
				t.Errorf("%v: %v", test, err)
			}
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v: read %d, %v", test, n, err)
		}
		if test.reuses {
			checkPool(t, c, 1, 1)
		} else {
			checkPool(t, c, 0, 0)
		}
	}
}

// How a stream is read and ended, and what that does to the connection.
func TestStreamEnds(t *testing.T) {
	readAll := func(t *testing.T, resp *sluice.Response) {
		b, err := io.ReadAll(iotest.OneByteReader(resp.BodyStream()))
		if err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		if n, err := resp.BodyStream().Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("behind the end: %d, %v", n, err)
		}
	}
	closeEarly := func(t *testing.T, resp *sluice.Response) {
		s := resp.BodyStream()
		for range 2 {
			if err := s.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || err != bodystream.ErrClosed {
			t.Errorf("of a closed stream: %d, %v", n, err)
		}
	}
	reset := func(_ *testing.T, resp *sluice.Response) { resp.Reset() }
	body := func(t *testing.T, resp *sluice.Response) {
		if got := string(resp.Body()); got != "hello" {
			t.Errorf("%q", got)
		}
	}
	for name, test := range map[string]struct {
		raw  string
		end  func(t *testing.T, resp *sluice.Response)
		kept bool
	}{
		"sized, read":       {sizedHello, readAll, true},
		"sized, closed":     {sizedHello, closeEarly, false},
		"sized, reset":      {sizedHello, reset, false},
		"sized, Body":       {sizedHello, body, true},
		"chunked, read":     {chunkedHello, readAll, true},
		"chunked, closed":   {chunkedHello, closeEarly, false},
		"chunked, Body":     {chunkedHello, body, true},
		"to the end, read":  {closedHello, readAll, false},
		"to the end, reset": {closedHello, reset, false},
		"Connection: close": {strings.Replace(sizedHello, "\r\n", "\r\nConnection: close\r\n", 1), readAll, false},
		"more behind it":    {sizedHello + "HTTP/1.1 ", readAll, false},
		"1.0":               {strings.Replace(sizedHello, "1.1", "1.0", 1), readAll, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
				for c.Request() != nil {
					if c.Send(test.raw); strings.HasPrefix(test.raw, closedHello) {
						return
					}
				}
			})
			c := p.Host()
			resp := streamed(t, c, "GET")
			checkPool(t, c, 1, 0)
			test.end(t, resp)
			kept := 0
			if test.kept {
				kept = 1
			}
			checkPool(t, c, kept, kept)
			resp.Reset()
			checkPool(t, c, kept, kept) // it was given back once
		})
	}
}

func TestStreamTrailers(t *testing.T) {
	p := harness.NewClientPeer(t, answering(chunkedHello))
	resp := streamed(t, p.Host(), "GET")
	if _, err := io.Copy(io.Discard, resp.BodyStream()); err != nil || string(resp.Header.Peek("X-End")) != "yes" {
		t.Errorf("%v, %q", err, resp.Header.Peek("X-End"))
	}
}

// The last byte was read and the end not: the connection is still good.
func TestStreamClosedBehindLastByte(t *testing.T) {
	p := harness.NewClientPeer(t, answering(sizedHello))
	c := p.Host()
	resp := streamed(t, c, "GET")
	if _, err := io.ReadFull(resp.BodyStream(), make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := resp.CloseBodyStream(); err != nil {
		t.Fatal(err)
	}
	checkPool(t, c, 1, 1)
}

// Responses that have no body need no reading.
func TestStreamWithoutBody(t *testing.T) {
	for raw, method := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n": "HEAD",
		"HTTP/1.1 204 No Content\r\n\r\n":              "GET",
		"HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n": "GET",
	} {
		p := harness.NewClientPeer(t, answering(raw))
		c := p.Host()
		resp := streamed(t, c, method)
		if resp.IsBodyStream() {
			t.Errorf("%s: there is a stream", method)
		}
		checkPool(t, c, 1, 1)
	}
}

// An empty body is a stream that needs no connection: programs that see the length do not
// read it.
func TestStreamOfNothing(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	c := p.Host()
	for range 2 {
		resp := streamed(t, c, "GET")
		checkPool(t, c, 1, 1)
		if b, err := io.ReadAll(resp.BodyStream()); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if _, isCloser := resp.BodyStream().(io.Closer); !isCloser || !resp.IsBodyStream() {
			t.Errorf("the body is %T", resp.BodyStream())
		}
		resp.Reset()
	}
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// The trailer section of a stream has the limits of the one of a body in memory.
func TestStreamTrailerLimits(t *testing.T) {
	for size, isGood := range map[int]bool{1000: true, 10_000: true, 70_000: false} {
		p := harness.NewClientPeer(t, answering(strings.Replace(chunkedHello, "yes", strings.Repeat("y", size), 1)))
		for _, streams := range []bool{false, true} {
			req, resp := harness.NewCall("GET", p.URL("/"))
			resp.StreamBody = streams
			c := p.Host()
			c.MaxIdemponentCallAttempts = 1
			err := c.Do(req, resp)
			if streams && err == nil {
				_, err = io.ReadAll(resp.BodyStream())
			}
			if isGood != (err == nil) || !isGood && !errors.Is(err, sluice.ErrBadTrailer) || isGood && len(resp.Header.Peek("X-End")) != size {
				t.Errorf("%d bytes, stream %v: %v, %d bytes came", size, streams, err, len(resp.Header.Peek("X-End")))
			}
		}
	}
}

func TestStreamLimit(t *testing.T) {
	for _, test := range []struct {
		raw   string
		limit int
		want  string
		err   error
	}{
		{sizedHello, 5, "hello", nil},
		{chunkedHello, 5, "hello", nil},
		{chunkedHello, 6, "hello", nil},
		{chunkedHello, 4, "hell", sluice.ErrBodyTooLarge},
		{closedHello, 5, "hello", nil},
		{closedHello, 4, "hell", sluice.ErrBodyTooLarge},
	} {
		for name, read := range map[string]func(r io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader,
		} {
			p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); c.Send(test.raw) })
			c := p.Host()
			c.MaxResponseBodySize = test.limit
			resp := streamed(t, c, "GET")
			got, err := io.ReadAll(read(resp.BodyStream()))
			if string(got) != test.want || !errors.Is(err, test.err) {
				t.Errorf("%.40q, limit %d, %s: %q, %v", test.raw, test.limit, name, got, err)
			}
			eventually(t, "not in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
		}
	}
}

// A stream is told apart from its end when it is cut off.
func TestStreamIsCut(t *testing.T) {
	for _, raw := range []string{sizedHello, chunkedHello} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); c.Send(raw[:len(raw)-3]) })
		c := p.Host()
		resp := streamed(t, c, "GET")
		if _, err := io.ReadAll(resp.BodyStream()); err == nil || err == io.EOF {
			t.Errorf("%v", err)
		}
		checkPool(t, c, 0, 0)
	}
}

// ReadTimeout is for each Read, and not for all of them.
func TestStreamReadTimeout(t *testing.T) {
	next := make(chan string)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		for s := range next {
			c.Send(s)
		}
		c.Gone()
	})
	c := p.Host()
	c.ReadTimeout = 300 * time.Millisecond
	resp := streamed(t, c, "GET")
	start := time.Now()
	for i := range 8 {
		time.Sleep(50 * time.Millisecond) // all together more than ReadTimeout
		next <- "x"
		if _, err := io.ReadFull(resp.BodyStream(), make([]byte, 1)); err != nil {
			t.Fatalf("byte %d, after %v: %v", i, time.Since(start), err)
		}
	}
	close(next)
	if _, err := resp.BodyStream().Read(make([]byte, 1)); err != sluice.ErrTimeout {
		t.Errorf("%v", err)
	}
	checkPool(t, c, 0, 0)
}

// The deadline of the call is not that of the stream, and the context is.
func TestStreamAfterTheCall(t *testing.T) {
	more := make(chan bool)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for c.Request() != nil {
			c.Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			if <-more {
				c.Send("hello")
			}
		}
	})
	c := p.Host()
	c.StreamResponseBody = true
	req, resp := harness.NewCall("GET", p.URL("/"))
	const bound = time.Second
	end := time.Now().Add(bound)
	if err := c.DoDeadline(req, resp, end); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deadline passes", func() bool { return time.Now().After(end) })
	more <- true
	if body, err := io.ReadAll(resp.BodyStream()); err != nil || string(body) != "hello" {
		t.Errorf("%q, %v", body, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.DoContext(ctx, req, resp); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	var phase *sluice.PhaseError
	if _, err := resp.BodyStream().Read(make([]byte, 1)); !errors.As(err, &phase) || phase.Phase != sluice.PhaseRead || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	more <- false
	checkPool(t, c, 0, 0)
}

// Close ends a Read that waits for the server.
func TestStreamCloseDuringRead(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
		c.Gone()
	})
	c := p.Host()
	resp := streamed(t, c, "GET")
	s := resp.BodyStream()
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 5))
		read <- err
	}()
	eventually(t, "Read waits", func() bool { return stackShows("(*Stream).Read", "transfer.(*Reader).Read") })
	within(t, "Close", func() { _ = resp.CloseBodyStream() })
	within(t, "Read", func() {
		if err := <-read; err == nil || err == io.EOF {
			t.Errorf("%v", err)
		}
	})
	checkPool(t, c, 0, 0)
}

// The functions that return bytes read streams to their end.
func TestStreamBuffered(t *testing.T) {
	p := harness.NewClientPeer(t, answering(chunkedHello))
	c := &sluice.Client{StreamResponseBody: true}
	status, body, err := c.Get(nil, p.URL("/"))
	if status != 200 || string(body) != "hello" || err != nil || c.IdleConnsCount() != 1 {
		t.Errorf("%d, %q, %v, %d idle", status, body, err, c.IdleConnsCount())
	}
	c = &sluice.Client{StreamResponseBody: true, MaxResponseBodySize: 4}
	if _, _, err := c.Get(nil, p.URL("/")); !errors.Is(err, sluice.ErrBodyTooLarge) || c.ConnsCount() != 0 {
		t.Errorf("%v, %d connections", err, c.ConnsCount())
	}
}
