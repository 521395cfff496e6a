package client_test

import (
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
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/test/harness"
)

// A Location that is neither absolute nor begins with a slash is resolved from
// the scratch memory of the URI, where it is not.
func TestReviewRelativeRedirects(t *testing.T) {
	for location, want := range map[string]string{
		"b": "/dir/b", "b/../c": "/dir/c", "../up": "/up", "./x?y=1": "/dir/x?y=1", "b#f": "/dir/b",
		"?q=2": "/dir/a?q=2", "/abs": "/abs",
	} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.Request()
			c.Send("HTTP/1.1 302 Found\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
			answering(harness.OKAnswer)(c)
		})
		req, resp := harness.NewCall("GET", p.URL("/dir/a?x=1"))
		err := p.Host().DoRedirects(req, resp, 1)
		if got := p.Requests(); err != nil || len(got) != 2 || got[1] != "GET "+want+" " {
			t.Errorf("%q: %v, %q, want %q", location, err, got, want)
		}
	}
}

// The same: what looks like no scheme is taken for a path, and a Location that
// is longer than the scratch memory is a panic that any server can cause.
func TestReviewRedirectsDoNotPanic(t *testing.T) {
	for _, location := range []string{"javascript:alert(1)", strings.Repeat("long/", 200)} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.Request()
			c.Send("HTTP/1.1 302 Found\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
			answering(harness.OKAnswer)(c)
		})
		func() {
			defer func() {
				if v := recover(); v != nil {
					t.Errorf("%.20q: panic: %v", location, v)
				}
			}()
			req, resp := harness.NewCall("GET", p.URL("/"))
			_ = p.Host().DoRedirects(req, resp, 1)
		}()
	}
}

// DisableRedirectPathNormalizing is set on the URI, and then reset by update.
func TestReviewRedirectPathAsGiven(t *testing.T) {
	for _, location := range []string{"/a//b/../c", "http://HOST/a//b/../c"} {
		var p *harness.ClientPeer
		p = harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.Request()
			c.Send("HTTP/1.1 302 Found\r\nLocation: " + strings.Replace(location, "HOST", p.Addr(), 1) + "\r\nContent-Length: 0\r\n\r\n")
			answering(harness.OKAnswer)(c)
		})
		req, resp := harness.NewCall("GET", p.URL("/"))
		req.DisableRedirectPathNormalizing = true
		err := p.Host().DoRedirects(req, resp, 1)
		if got := p.Requests(); err != nil || len(got) != 2 || got[1] != "GET /a//b/../c " {
			t.Errorf("%q: %v, %q", location, err, got)
		}
	}
}

// awaitAnswer bounds writing when a status from 300 on comes, also when all is
// written by then, and nobody takes the deadline off: the next request on the
// connection fails.
func TestReviewNoWriteDeadlineIsLeft(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
	c := p.Host()
	var later atomic.Bool
	var left atomic.Pointer[time.Time]
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(h *hookedConn, _ []byte) (int, error, bool) {
			if _, write := h.deadlines(); later.Load() && !write.IsZero() {
				left.Store(&write)
			}
			return 0, nil, false
		}
	})
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, uploadSize))
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	later.Store(true)
	req.SetBody(nil)
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if at := left.Load(); at != nil || p.Accepted() != 1 {
		t.Fatalf("a request without any time-out was written with the deadline %v; %d connections", at, p.Accepted())
	}
}

// A streamed body over the limit is no reason to repeat: an answer was there.
func TestReviewStreamOverLimitIsNotRepeated(t *testing.T) {
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

// A refusal whose body comes behind the grace for writing: without any
// time-out, the deadline that has passed stays set for the reading of it.
func TestReviewRefusalThatComesInPieces(t *testing.T) {
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
func TestReviewRefusalAsStreamHasNoDeadline(t *testing.T) {
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

// An interim response ends the watch: a refusal behind it, by a server that
// neither reads on nor closes, is not noticed.
func TestReviewRefusalBehindInterim(t *testing.T) {
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
func TestReviewErrorOfBodyStream(t *testing.T) {
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

// What is wrong with the request itself is so on each connection: it costs none
// and is not repeated.
func TestReviewBadRequestsCostNoConnections(t *testing.T) {
	for name, set := range map[string]func(r *sluice.Request){
		"no host":   func(r *sluice.Request) { r.SetRequestURI("/") },
		"malformed": func(r *sluice.Request) { r.SetRequestURI("http://a b/") },
		"bracket":   func(r *sluice.Request) { r.SetRequestURI("http://[::1/") },
	} {
		p := harness.NewClientPeer(t, answering(harness.OKAnswer))
		c := p.Host()
		if _, _, err := c.Get(nil, p.URL("/")); err != nil {
			t.Fatal(err)
		}
		req, resp := new(sluice.Request), new(sluice.Response)
		set(req)
		err := c.Do(req, resp)
		if err == nil || p.Accepted() > 1 || c.ConnsCount() > 1 {
			t.Errorf("%s: %v, %d connections", name, err, p.Accepted())
		}
	}
}

// A Client's request counts once.
func TestReviewPendingRequestsCountOnce(t *testing.T) {
	var host *sluice.HostClient
	pending := make(chan int, 1)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		pending <- host.PendingRequests()
		c.Send(harness.OKAnswer)
	})
	c := &sluice.Client{ConfigureClient: func(hc *sluice.HostClient) error { host = hc; return nil }}
	if _, _, err := c.Get(nil, p.URL("/")); err != nil {
		t.Fatal(err)
	}
	if n := <-pending; n != 1 || host.PendingRequests() != 0 {
		t.Fatalf("%d requests, later %d; want 1, 0", n, host.PendingRequests())
	}
}

// TestUnknownStrategy: an unknown ConnPoolStrategy is an error as soon as an idle connection
// is to be chosen, as in fasthttp.
func TestUnknownStrategy(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.ConnPoolStrategy = 7
	for i, want := range []error{nil, sluice.ErrConnPoolStrategyNotImpl, sluice.ErrConnPoolStrategyNotImpl} {
		if _, _, err := c.Get(nil, p.URL("/")); !errors.Is(err, want) {
			t.Errorf("request %d: %v, want %v", i, err, want)
		}
		checkPool(t, c, 1, 1)
	}
	c.CloseIdleConnections()
	if _, _, err := c.Get(nil, p.URL("/")); err != nil {
		t.Errorf("on a new connection: %v", err)
	}
}

// roundTripFunc is a RoundTripper.
type roundTripFunc func(hc *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error)

func (f roundTripFunc) RoundTrip(hc *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error) {
	return f(hc, req, resp)
}

// Addresses are tried in turn by all requests together: two that dial at the
// same time may each try only the bad one.
func TestReviewEachAddressIsTried(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	var c *sluice.HostClient
	var inner sync.WaitGroup
	var dials atomic.Int64
	c = &sluice.HostClient{Addr: "bad:80,good:80"}
	c.Dial = func(addr string) (net.Conn, error) {
		if addr == "good:80" {
			return net.Dial("tcp", p.Addr())
		}
		if dials.Add(1) == 1 {
			// Another request dials in the meantime.
			inner.Go(func() { _, _, _ = c.Get(nil, "http://h/") })
			inner.Wait()
		}
		return nil, syscall.ECONNREFUSED
	}
	if _, _, err := c.Get(nil, "http://h/"); err != nil {
		t.Error(err)
	}
}

// The goroutine of dialAside reads the call's deadline when the request is the
// caller's again. It takes the race detector to see it.
func TestReviewDialTimeoutAfterTheCall(t *testing.T) {
	c := &sluice.HostClient{Addr: "h:80", DialTimeout: func(string, time.Duration) (net.Conn, error) {
		return nil, syscall.ECONNREFUSED
	}}
	req, resp := harness.NewCall("GET", "http://h/")
	for i := range 3000 {
		_ = c.DoTimeout(req, resp, time.Duration(i%300)*100)
	}
	eventually(t, "all dials end", func() bool { return c.ConnsCount() == 0 })
}

// Close between Read's lock and its notice that it waits: the interruption is
// lost, and Close waits as long as the server is silent.
func TestReviewCloseBeforeReadWaits(t *testing.T) {
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
	c.ReadTimeout = time.Hour
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

// Bytes that nobody asked for, on connections that are no sockets: those of
// fasthttputil could tell, and those that wrap a socket and have a NetConn do.
func TestReviewLateBytesWithoutSocket(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
	late := make(chan struct{})
	script := func(c *harness.PeerConn) {
		c.Request()
		c.Send(harness.OKAnswer)
		if c.Number == 1 {
			<-late // the answer has been taken
			c.Send(evil)
			late <- struct{}{}
		}
		answering(harness.OKAnswer)(c)
	}
	run := func(name string, c *sluice.HostClient) {
		t.Run(name, func(t *testing.T) {
			for i := range 2 {
				req, resp := harness.NewCall("GET", "http://h/")
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
					t.Errorf("request %d: %v, %q", i+1, err, resp.Body())
				}
				if i == 0 {
					late <- struct{}{}
					<-late
				}
			}
		})
	}
	ln := fasthttputil.NewInmemoryListener()
	harness.NewPeerOn(t, ln, script)
	run("memory", &sluice.HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return ln.Dial() }})
	p := harness.NewClientPeer(t, script)
	wrapped := p.Host()
	wrapped.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return wrappedConn{nc}, err
	}
	run("a wrapped TCP connection", wrapped)
}

// wrappedConn is a connection in another, which tells so as *tls.Conn does.
type wrappedConn struct{ net.Conn }

// NetConn returns what is wrapped.
func (c wrappedConn) NetConn() net.Conn { return c.Conn }

// MaxConnDuration's Connection: close takes the request's own field with it.
func TestReviewMaxConnDurationKeepsConnectionField(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.MaxConnDuration = 1
	req, resp := harness.NewCall("GET", p.URL("/"))
	req.Header.Set("Connection", "x-hop")
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if got := req.Header.Peek("Connection"); string(got) != "x-hop" {
		t.Errorf("Connection is %q afterwards", got)
	}
}

// A dialer that panics, as a handler's might that is recovered, must not keep
// its place in the pool.
func TestReviewPanickingDialer(t *testing.T) {
	c := &sluice.HostClient{Addr: "h:80", MaxConns: 1, Dial: func(string) (net.Conn, error) { panic("dialer") }}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = c.Get(nil, "http://h/")
	}()
	if n := c.ConnsCount(); n != 0 || c.PendingRequests() != 0 {
		t.Errorf("%d connections, %d requests", n, c.PendingRequests())
	}
}

// GetConn and GotConn are declared and never called.
func TestReviewTraceOrder(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	var told []string
	var mu sync.Mutex
	tell := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, what)
	}
	c := p.Host()
	c.Trace = &sluice.ClientTrace{
		GetConn:      func(addr string) { tell("get " + addr) },
		GotConn:      func(i sluice.GotConnInfo) { tell(fmt.Sprint("got ", i.IsReused, i.Conn != nil)) },
		DialStart:    func(network, addr string) { tell("dial " + addr) },
		DialDone:     func(network, addr string, err error) { tell(fmt.Sprint("dialed ", err)) },
		WroteRequest: func(err error) { tell(fmt.Sprint("wrote ", err)) },
		FirstByte:    func() { tell("first") },
	}
	for range 2 {
		if _, _, err := c.Get(nil, p.URL("/")); err != nil {
			t.Fatal(err)
		}
	}
	a := p.Addr()
	want := []string{
		"get " + a, "dial " + a, "dialed <nil>", "got false true", "wrote <nil>", "first",
		"get " + a, "got true true", "wrote <nil>", "first",
	}
	if got := strings.Join(told, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// A server that answers while it reads, as a proxy or an echo does: the client
// must take the answer while it writes, or both wait for ever.
func TestReviewAnswerWhileWriting(t *testing.T) {
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

// A response to HEAD ends behind its head, whether it tells a length or not: the
// connection can be used further (fasthttp closes it too).
func TestReviewHeadWithoutLengthKeepsConnection(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"))
	c := p.Host()
	req, resp := harness.NewCall("HEAD", p.URL("/"))
	for range 3 {
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	}
	if p.Accepted() != 1 {
		t.Errorf("%d connections", p.Accepted())
	}
}

// CONNECT has a target in authority form and no other (RFC 9112 section 3.2.3).
func TestReviewConnectByURL(t *testing.T) {
	lines := make(chan string, 1)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		line, _ := c.Br.ReadString('\n')
		lines <- line
		c.Send("HTTP/1.1 200 OK\r\n\r\n")
		c.Gone()
	})
	req, resp := harness.NewCall("CONNECT", p.URL("/"))
	if err := p.Host().Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != "CONNECT "+p.Addr()+" HTTP/1.1\r\n" {
		t.Errorf("%q", line)
	}
}

// Close interrupts a Read that has just read the end of the body: the deadline
// of the interruption must not stay on a connection that goes to the pool.
func TestReviewCloseAtTheEndOfRead(t *testing.T) {
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
