package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

func withKey(req *sluice.Request, _ *sluice.Response) { req.Header.Set("Idempotency-Key", "1") }

// The server reads all, answers one and closes.
func TestPipelineRepeatsWhatMayBeRepeated(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first string // what the server says before it closes
		body  string // of the first answer; "": it gets none
		err   error  // of the first if it gets none
	}{
		{"an answer", answerOK("a"), "a", nil},
		{"an answer that says so", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", "a", nil},
		{"half an answer", answerOK("abc")[:30], "", io.ErrUnexpectedEOF},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			c, peer := newPipelinePeer(t)
			get := beginCall(t, c, "GET", "/get")
			post := beginCall(t, c, "POST", "/post")
			keyed := beginCall(t, c, "POST", "/keyed", withKey)
			put := beginCall(t, c, "PUT", "/put")
			conn := peer.accept()
			conn.expect("/get", "/post", "/keyed", "/put")
			conn.say(tc.first)
			_ = conn.Close()
			if err := post.end(); !errors.Is(err, sluice.ErrConnectionClosed) {
				t.Errorf("POST: %v", err)
			}
			conn = peer.accept()
			if tc.body != "" {
				get.want(tc.body)
			} else if err := get.end(); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			conn.expect("/keyed", "/put")
			conn.say(answerOK("keyed"), answerOK("put"))
			keyed.want("keyed")
			put.want("put")
		})
	}
}

// A server that closes a connection without a word is told of at once. It delays
// no other connection, and what it was not sent is not lost.
func TestPipelineClosedWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, closedWithoutAnAnswer)
}

func closedWithoutAnAnswer(t *testing.T) {
	c, peer := newPipelinePeer(t)
	var dials atomic.Int32
	c.Dial = func(string) (net.Conn, error) {
		dials.Add(1)
		return peer.ln.Dial()
	}
	for i := range 20 {
		get := beginCall(t, c, "GET", "/get")
		post := beginCall(t, c, "POST", "/post", func(req *sluice.Request, _ *sluice.Response) { req.SetConnectionClose() })
		later := beginCall(t, c, "POST", "/later")
		conn := peer.accept()
		conn.expect("/get", "/post")
		_ = conn.Close()
		for _, call := range []*pendingCall{get, post} {
			if err := call.end(); !errors.Is(err, sluice.ErrConnectionClosed) || !errors.Is(err, io.EOF) {
				t.Errorf("%v", err)
			}
		}
		conn = peer.accept()
		conn.expect("/later")
		conn.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlater")
		later.want("later")
		if n := int(dials.Load()); n != 2*(i+1) {
			t.Errorf("%d dials", n)
		}
	}
}

func TestPipelineWhatWasNotSentIsSentLater(t *testing.T) { synctest.Test(t, whatWasNotSentIsSentLater) }

func whatWasNotSentIsSentLater(t *testing.T) {
	c, peer := newPipelinePeer(t)
	last := beginCall(t, c, "GET", "/last", func(req *sluice.Request, _ *sluice.Response) { req.SetConnectionClose() })
	post := beginCall(t, c, "POST", "/post")
	conn := peer.accept()
	conn.expect("/last")
	conn.say(answerOK("last"))
	last.want("last")
	conn.expectEnd() // and no POST
	conn = peer.accept()
	conn.expect("/post")
	conn.say(answerOK("post"))
	post.want("post")
}

// Each connection answers one request, and closes.
func TestPipelineAttemptsAreBounded(t *testing.T) { synctest.Test(t, attemptsAreBounded) }

func attemptsAreBounded(t *testing.T) {
	c, peer := newPipelinePeer(t)
	var calls []*pendingCall
	for range sluice.DefaultMaxIdemponentCallAttempts + 1 {
		calls = append(calls, beginCall(t, c, "GET", "/"))
	}
	for i := range sluice.DefaultMaxIdemponentCallAttempts {
		conn := peer.accept()
		for range len(calls) - i {
			conn.expect("/")
		}
		conn.say(answerOK("hi"))
		_ = conn.Close()
		calls[i].want("hi")
	}
	if err := calls[sluice.DefaultMaxIdemponentCallAttempts].end(); !errors.Is(err, sluice.ErrConnectionClosed) {
		t.Errorf("error %v", err)
	}
	if n := c.PendingRequests(); n != 0 {
		t.Errorf("%d pending requests", n)
	}
}

// A server that greets, and never lets a request be sent.
func TestPipelineGivesUpOnGreeters(t *testing.T) { synctest.Test(t, givesUpOnGreeters) }

func givesUpOnGreeters(t *testing.T) {
	var dials atomic.Int32
	c := &sluice.PipelineClient{Addr: "x:80", Dial: func(string) (net.Conn, error) {
		dials.Add(1)
		pipes := fasthttputil.NewPipeConns()
		_, err := pipes.Conn2().Write([]byte("SSH-2.0-x\r\n"))
		return pipes.Conn1(), err
	}}
	if err := beginCall(t, c, "POST", "/").end(); err == nil {
		t.Error("no error")
	}
	if n := dials.Load(); n != sluice.DefaultMaxIdemponentCallAttempts {
		t.Errorf("%d connections, want %d", n, sluice.DefaultMaxIdemponentCallAttempts)
	}
}

// A greeter is a connection on which the server speaks first. What it says is taken
// from the connection before anyone looks whether there is something, where that is
// possible, and seen by the reader when the request is written.
type greeter struct {
	pipe                // not a net.Conn: the client looks at those that are embedded
	taken, over         chan struct{}
	isTaken, isOverOnce sync.Once
	hasSpoken           bool // the reader's
}

type pipe struct{ net.Conn }

// IsQuiet implements quietConn.
func (g *greeter) IsQuiet() bool {
	select {
	case <-g.taken:
		return true
	case <-time.After(50 * time.Millisecond): // nothing reads yet
		g.end()
		return false
	}
}

func (g *greeter) end() { g.isOverOnce.Do(func() { close(g.over) }) }

// Read implements net.Conn.
func (g *greeter) Read(p []byte) (int, error) {
	g.isTaken.Do(func() { close(g.taken) })
	<-g.over
	if g.hasSpoken {
		return 0, io.EOF
	}
	g.hasSpoken = true
	return copy(p, answerOK("evil")), nil
}

// Write implements net.Conn.
func (g *greeter) Write(p []byte) (int, error) {
	g.end()
	return len(p), nil
}

// Close implements net.Conn.
func (g *greeter) Close() error {
	g.end()
	return nil
}

// What is there before the first request is no answer to it.
func TestPipelineAnswerBeforeTheRequest(t *testing.T) { synctest.Test(t, answerBeforeTheRequest) }

func answerBeforeTheRequest(t *testing.T) {
	noNewGoroutines(t)
	c := &sluice.PipelineClient{Addr: "x:80", Logger: &recordingLogger{}, Dial: func(string) (net.Conn, error) {
		return &greeter{pipe: pipe{fasthttputil.NewPipeConns().Conn1()}, taken: make(chan struct{}), over: make(chan struct{})}, nil
	}}
	if err := beginCall(t, c, "GET", "/").end(); err == nil {
		t.Error("bytes that came before the request were taken for its answer")
	}
}

// What comes behind an answer is never the answer to the next request, however
// soon that comes.
func TestPipelineLateBytes(t *testing.T) {
	c, peer := newPipelinePeer(t)
	go func() {
		for conn := range peer.conns {
			go func() {
				defer conn.Close()
				var req sluice.Request
				for req.Read(conn.br) == nil {
					_, _ = io.WriteString(conn, answerOK("right")+answerOK("wrong"))
				}
			}()
		}
	}()
	req, resp := new(sluice.Request), new(sluice.Response)
	req.SetRequestURI("http://x/")
	for range 200 {
		if err := c.DoTimeout(req, resp, pipelineBound); err != nil || string(resp.Body()) != "right" {
			t.Fatalf("%v, %q", err, resp.Body())
		}
	}
}

// A connection that the server has closed is not used, not even for what must
// not be repeated.
func TestPipelineClosedConnections(t *testing.T) { synctest.Test(t, closedConnections) }

func closedConnections(t *testing.T) {
	c, peer := newPipelinePeer(t)
	for range 100 {
		call := beginCall(t, c, "POST", "/")
		conn := peer.accept()
		conn.expect("/")
		conn.say(answerOK("hi"))
		call.want("hi")
		_ = conn.Close()
	}
}

// What is repeated comes before what was not sent.
func TestPipelineRepeatsInOrder(t *testing.T) { synctest.Test(t, repeatsInOrder) }

func repeatsInOrder(t *testing.T) {
	c, peer := newPipelinePeer(t)
	ends := func(req *sluice.Request, _ *sluice.Response) { req.SetConnectionClose() }
	zeroth := beginCall(t, c, "GET", "/zeroth")
	first := beginCall(t, c, "GET", "/first", ends)
	second := beginCall(t, c, "POST", "/second", ends)
	third := beginCall(t, c, "POST", "/third")
	conn := peer.accept()
	conn.expect("/zeroth", "/first")
	conn.say(answerOK("zeroth"))
	zeroth.want("zeroth")
	_ = conn.Close()
	for i, call := range []*pendingCall{first, second, third} {
		target := []string{"/first", "/second", "/third"}[i]
		conn = peer.accept()
		conn.expect(target)
		conn.say(answerOK(target))
		call.want(target)
	}
}

// getRequest returns a request for a target.
func getRequest(target string) *sluice.Request {
	req := new(sluice.Request)
	req.SetRequestURI("http://x" + target)
	return req
}

// recordingLogger counts messages.
type recordingLogger struct {
	mu    sync.Mutex
	lines []string
}

func (l *recordingLogger) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func TestPipelineReadTimeout(t *testing.T) { synctest.Test(t, pipelineReadTimeout) }

func pipelineReadTimeout(t *testing.T) {
	c, peer := newPipelinePeer(t)
	c.ReadTimeout = 400 * time.Millisecond
	a, b := beginCall(t, c, "GET", "/a"), beginCall(t, c, "GET", "/b")
	conn := peer.accept()
	conn.expect("/a", "/b")
	for _, call := range []*pendingCall{a, b} {
		if err := call.end(); err != sluice.ErrTimeout {
			t.Errorf("error %v", err)
		}
	}
	conn.expectEnd()
	d := beginCall(t, c, "GET", "/d")
	conn = peer.accept()
	conn.expect("/d")
	conn.say(answerOK("d"))
	d.want("d")
	// Nothing is expected now, so that nothing is late.
	time.Sleep(3 * c.ReadTimeout / 2)
	e := beginCall(t, c, "GET", "/e")
	conn.expect("/e")
	conn.say(answerOK("e"))
	e.want("e")
}

func TestPipelineWriteTimeout(t *testing.T) { synctest.Test(t, writeTimeout) }

func writeTimeout(t *testing.T) {
	noNewGoroutines(t)
	c, peer := newPipelinePeer(t)
	c.WriteTimeout = 50 * time.Millisecond
	c.Dial = func(string) (net.Conn, error) {
		nc, err := peer.ln.Dial()
		for range 4 { // which a pipe holds beside what it has room for
			if err == nil {
				_, err = nc.Write([]byte("x"))
			}
		}
		return nc, err
	}
	large := beginCall(t, c, "PUT", "/large", func(req *sluice.Request, _ *sluice.Response) { req.SetBody(make([]byte, 1<<20)) })
	conn := peer.accept() // and doesn't read
	if err := large.end(); err != sluice.ErrTimeout {
		t.Errorf("error %v", err)
	}
	_ = conn.Close()
}

// A server may refuse a request before it is written, and close.
func TestPipelineEarlyRefusal(t *testing.T) { synctest.Test(t, earlyRefusal) }

func earlyRefusal(t *testing.T) {
	c, peer := newPipelinePeer(t)
	for range 30 {
		large := beginCall(t, c, "PUT", "/large", func(req *sluice.Request, _ *sluice.Response) { req.SetBody(make([]byte, 1<<20)) })
		conn := peer.accept()
		if _, err := conn.br.Peek(1); err != nil {
			t.Fatal(err)
		}
		conn.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		_ = conn.Close()
		if err := large.end(); err != nil || large.resp.StatusCode() != sluice.StatusRequestEntityTooLarge {
			t.Fatalf("%v, status %d", err, large.resp.StatusCode())
		}
	}
}

// brokenConn takes some bytes, and then no more.
type brokenConn struct {
	net.Conn
	left   int
	broken chan struct{}
}

// Write implements net.Conn.
func (c *brokenConn) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.left])
	c.left = 0
	close(c.broken)
	return n, io.ErrClosedPipe
}

// What was written in part may have its answer; what was not at all is sent
// again, whatever it is.
func TestPipelineBrokenWrite(t *testing.T) {
	for _, hasAnswer := range []bool{true, false} {
		inBubble(t, fmt.Sprint("answer ", hasAnswer), func(t *testing.T) {
			c, peer := newPipelinePeer(t)
			broken, dials := make(chan struct{}), make(chan struct{})
			var count atomic.Int32
			c.Dial = func(string) (net.Conn, error) {
				<-dials
				conn, err := peer.ln.Dial()
				if count.Add(1) == 1 && err == nil {
					conn = &brokenConn{Conn: conn, left: 40, broken: broken}
				}
				return conn, err
			}
			first := beginCall(t, c, "POST", "/first", func(req *sluice.Request, _ *sluice.Response) { req.SetBody(make([]byte, 1000)) })
			second := beginCall(t, c, "POST", "/second")
			close(dials) // both are written at once
			conn := peer.accept()
			<-broken
			// Give a client that closes the connection the time for that.
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = io.Copy(io.Discard, conn)
			if hasAnswer {
				conn.say(answerOK("refused"))
			}
			_ = conn.Close()
			if hasAnswer {
				first.want("refused")
			} else if err := first.end(); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("error %v", err)
			}
			conn = peer.accept()
			conn.expect("/second")
			conn.say(answerOK("second"))
			second.want("second")
		})
	}
}

func TestPipelineIdleConnectionsEnd(t *testing.T) { synctest.Test(t, idleConnectionsEnd) }

func idleConnectionsEnd(t *testing.T) {
	noNewGoroutines(t)
	c, peer := newPipelinePeer(t)
	c.MaxIdleConnDuration = 20 * time.Millisecond
	call := beginCall(t, c, "GET", "/")
	conn := peer.accept()
	conn.expect("/")
	conn.say(answerOK("hi"))
	call.want("hi")
	conn.expectEnd()
}

// beginAbandoned sends a request for /lost, and returns what ends its call.
func beginAbandoned(t *testing.T, c *sluice.PipelineClient) (abandon func()) {
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		req := new(sluice.Request)
		req.SetRequestURI("http://x/lost")
		lost <- c.DoContext(ctx, req, nil)
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-lost; !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
	}
}

// A server that answers one request after the other is not silent, though the
// connection is never without one, and the next answer's call was abandoned.
func TestPipelineKeepsWhatIsUsed(t *testing.T) { synctest.Test(t, keepsWhatIsUsed) }

func keepsWhatIsUsed(t *testing.T) {
	c, peer := newPipelinePeer(t)
	c.MaxIdleConnDuration = 8 * time.Second
	look := func() { time.Sleep(2 * time.Second) } // it looks four times in that time
	call := beginCall(t, c, "GET", "/")
	conn := peer.accept()
	conn.expect("/")
	for range 4 {
		next := beginCall(t, c, "GET", "/")
		conn.expect("/")
		conn.say(answerOK("hi"))
		call.want("hi")
		look()
		call = next
	}
	abandon := beginAbandoned(t, c)
	conn.expect("/lost")
	abandon()
	last := beginCall(t, c, "GET", "/last")
	conn.expect("/last")
	conn.say(answerOK("hi"))
	call.want("hi")
	look()
	conn.say(answerOK("lost"), answerOK("last"))
	last.want("last")
}

// Requests that nobody waits for must not keep a dead connection, and the
// places in its queue.
func TestPipelineGivesUpOnSilentServers(t *testing.T) { synctest.Test(t, givesUpOnSilentServers) }

func givesUpOnSilentServers(t *testing.T) {
	c, peer := newPipelinePeer(t)
	c.MaxIdleConnDuration = 400 * time.Millisecond
	abandon := beginAbandoned(t, c)
	conn := peer.accept()
	conn.expect("/lost")
	abandon()
	alive := beginCall(t, c, "GET", "/alive")
	conn.expect("/alive")
	conn.expectEnd()
	conn = peer.accept()
	conn.expect("/alive")
	conn.say(answerOK("alive"))
	alive.want("alive")
	waitUntil(t, "nothing is pending", func() bool { return c.PendingRequests() == 0 })
}

// A dial that failed delays the next ones, and one that succeeds ends that.
func TestPipelineDialErrors(t *testing.T) {
	synctest.Test(t, dialErrors)
	synctest.Test(t, func(t *testing.T) {
		if err := (&sluice.PipelineClient{}).Do(getRequest("/"), nil); !isError(err, textError("sluice: HostClient.Addr has no address")) {
			t.Error("a client without Addr:", err)
		}
	})
}

func dialErrors(t *testing.T) {
	c, peer := newPipelinePeer(t)
	refused := errors.New("refused")
	isUp, last := false, time.Now()
	var delays []time.Duration
	c.Dial = func(string) (net.Conn, error) {
		delays, last = append(delays, time.Since(last)), time.Now()
		if isUp {
			return peer.ln.Dial()
		}
		return nil, refused
	}
	var logged recordingLogger
	c.Logger = &logged
	for range 9 {
		err := c.Do(getRequest("/"), nil)
		if dialed := (*sluice.ErrDialWithUpstream)(nil); !errors.As(err, &dialed) || !errors.Is(err, refused) || dialed.Upstream != "x:80" {
			t.Fatalf("error %v", err)
		}
	}
	if len(logged.lines) == 0 {
		t.Error("nothing was logged")
	}
	isUp = true
	for range 2 {
		call := &pendingCall{t: t, req: getRequest("/"), resp: new(sluice.Response), err: make(chan error, 1)}
		go func() { call.err <- c.Do(call.req, call.resp) }()
		conn := peer.accept()
		conn.expect("/")
		conn.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nup")
		call.want("up")
		synctest.Wait()
	}
	const ms = time.Millisecond
	if want := []time.Duration{0, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 500 * ms, 500 * ms, 500 * ms, 0}; !slices.Equal(delays, want) {
		t.Errorf("dialed after %v, want %v", delays, want)
	}
}
