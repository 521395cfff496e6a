package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestGetOfAStream: what a Transport leaves as a stream is read; if it breaks off, what
// came is returned.
func TestGetOfAStream(t *testing.T) {
	for _, tc := range []struct {
		rest   error
		status int
	}{{nil, 202}, {errStub, 0}} {
		c := &sluice.HostClient{Addr: "h:80", Transport: roundTripFunc(func(_ *sluice.HostClient, _ *sluice.Request, resp *sluice.Response) (bool, error) {
			resp.SetStatusCode(202)
			var r io.Reader = strings.NewReader("half")
			if tc.rest != nil {
				r = io.MultiReader(r, iotest.ErrReader(tc.rest))
			}
			resp.SetBodyStream(r, -1)
			return false, nil
		})}
		if status, body, err := c.Get([]byte("old"), "http://h/"); status != tc.status || !errors.Is(err, tc.rest) || tc.rest == nil && string(body) != "half" {
			t.Errorf("%d, %q, %v", status, body, err)
		}
	}
}

// everyRead is a ReadTimeout for which each Read sets a deadline; see Client.ReadTimeout.
const everyRead = 9 * time.Second

// TestStreamsWithoutDeadlines: a streamed body whose deadlines cannot be set or cleared is
// not read.
func TestStreamsWithoutDeadlines(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return stickyConn{nc}, err
	}
	req, resp := harness.NewCall("POST", p.URL("/"))
	resp.StreamBody = true
	if err := c.DoTimeout(req, resp, time.Hour); !errors.Is(err, errStub) {
		t.Errorf("clearing: %v", err)
	}
	checkPool(t, c, 0, 0)
	c = p.Host()
	c.ReadTimeout = everyRead
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return &countdownConn{nc, 1}, err
	}
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := resp.BodyStream().Read(make([]byte, 1)); n != 0 || !errors.Is(err, errStub) {
			t.Errorf("setting: %d, %v", n, err)
		}
	}
	checkPool(t, c, 0, 0)
}

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
		if n, err := s.Read(make([]byte, 1)); n != 0 || err != body.ErrClosed {
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
	eventually(t, "Read waits", func() bool { return stackShows("(*Stream).Read", "body.(*Reader).Read") })
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

// A streamed body over the limit is no reason to repeat: an answer was there.
func TestStreamOverLimitIsNotRepeated(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.StreamResponseBody, c.MaxResponseBodySize = true, 1
	req, resp := harness.NewCall("GET", p.URL("/"))
	err := c.Do(req, resp)
	if n := len(p.Requests()); !errors.Is(err, sluice.ErrBodyTooLarge) || n != 1 {
		t.Fatalf("%v after %d requests, want ErrBodyTooLarge after 1", err, n)
	}
	checkPool(t, c, 0, 0)
}

// Close between Read's lock and its notice that it waits: the interruption is
// lost, and Close waits as long as the server is silent.
func TestCloseBeforeReadWaits(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		c.Gone()
	})
	c := p.Host()
	c.StreamResponseBody = true
	closed := make(chan error, 1)
	var stream io.Reader
	var once sync.Once
	hooked(c, func(h *hookedConn) {
		h.onDeadline = func() {
			if stream == nil {
				return
			}
			once.Do(func() {
				go func() { closed <- stream.(io.Closer).Close() }()
				eventually(t, "Close waits for the lock", func() bool {
					return stackShows("sync.(*Mutex).Lock", "(*Stream).Close")
				})
			})
		}
	})
	c.ReadTimeout = everyRead
	req, resp := harness.NewCall("GET", p.URL("/"))
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	stream = resp.BodyStream()
	go func() { _, _ = stream.Read(make([]byte, 9)) }()
	select {
	case <-closed:
	case <-time.After(clientPatience):
		t.Error("Close hangs")
		p.Ln.Close()
		p.Mu.Lock()
		p.Conns[0].Close()
		p.Mu.Unlock()
	}
	checkPool(t, c, 0, 0)
}

// Close interrupts a Read that has just read the end of the body: the deadline
// of the interruption must not stay on a connection that goes to the pool.
func TestCloseAtTheEndOfRead(t *testing.T) {
	last := make(chan bool)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
		<-last
		c.Send("0\r\n\r\n")
		answering(harness.OKAnswer)(c)
	})
	c := p.Host()
	var closed sync.WaitGroup
	var stream io.Reader
	ran := false
	hooked(c, func(h *hookedConn) {
		h.afterRead = func(b []byte) {
			if stream == nil || !bytes.HasPrefix(b, []byte("0")) {
				return
			}
			ran = true
			closed.Go(func() { _ = stream.(io.Closer).Close() })
			eventually(t, "Close waits for the lock", func() bool {
				return stackShows("sync.(*Mutex).Lock", "(*Stream).Close")
			})
		}
	})
	req, resp := harness.NewCall("GET", p.URL("/"))
	resp.StreamBody = true
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	stream = resp.BodyStream()
	if _, err := io.ReadFull(stream, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	last <- true
	_, _ = stream.Read(make([]byte, 1))
	closed.Wait()
	req, resp = harness.NewCall("POST", p.URL("/"))
	if err := c.Do(req, resp); err != nil || !ran {
		t.Errorf("the next request: %v; closed during Read: %v", err, ran)
	}
}

// Streams that are read, closed and cancelled by many at the same time.
func TestStreamsUnderChurn(t *testing.T) {
	p := harness.NewClientPeer(t, answering(chunkedHello))
	c := p.Host()
	c.MaxConns, c.MaxConnWaitTimeout, c.StreamResponseBody = 3, harness.Patience, true
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for j := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				req, resp := harness.NewCall("GET", p.URL("/"))
				if err := c.DoContext(ctx, req, resp); err != nil {
					t.Error(err)
					cancel()
					continue
				}
				var two sync.WaitGroup
				s := resp.BodyStream()
				two.Go(func() { _, _ = io.Copy(io.Discard, s) })
				switch (i + j) % 3 {
				case 0:
					two.Go(cancel)
				case 1:
					two.Go(func() { _ = s.(io.Closer).Close() })
				}
				two.Wait()
				resp.Reset()
				cancel()
			}
		})
	}
	within(t, "the churn", all.Wait)
	eventually(t, "none in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
	for range 2 { // nothing that was forgotten waits for them
		held(t, c, c.MaxConns)()
	}
}
