package sluice

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/internal/clock"
)

// pipelinePeer is a server that does what a test says.
type pipelinePeer struct {
	t     *testing.T
	ln    *fasthttputil.InmemoryListener
	conns chan *pipelineConn
}

// pipelineConn is a connection of a pipelinePeer.
type pipelineConn struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

const pipelineBound = 20 * time.Second

func newPipelinePeer(t *testing.T) (*PipelineClient, *pipelinePeer) {
	p := &pipelinePeer{t: t, ln: fasthttputil.NewInmemoryListener(), conns: make(chan *pipelineConn, 64)}
	go func() {
		for {
			c, err := p.ln.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(pipelineBound))
			p.conns <- &pipelineConn{Conn: c, t: t, br: bufio.NewReader(c)}
		}
	}()
	c := &PipelineClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { return p.ln.Dial() }}
	t.Cleanup(func() {
		_ = p.ln.Close()
		for len(p.conns) > 0 {
			_ = (<-p.conns).Close()
		}
		c.CloseIdleConnections()
	})
	return c, p
}

// accept returns the next connection.
func (p *pipelinePeer) accept() *pipelineConn {
	p.t.Helper()
	select {
	case c := <-p.conns:
		p.t.Cleanup(func() { _ = c.Close() })
		return c
	case <-time.After(pipelineBound):
		p.t.Fatal("no connection")
		return nil
	}
}

// expect reads requests with these targets.
func (c *pipelineConn) expect(targets ...string) {
	c.t.Helper()
	for _, target := range targets {
		var req Request
		if err := req.Read(c.br); err != nil {
			c.t.Fatalf("no request for %s: %v", target, err)
		}
		if got := string(req.Header.RequestURI()); got != target {
			c.t.Fatalf("the request is for %q, want %q", got, target)
		}
	}
}

// say writes.
func (c *pipelineConn) say(answers ...string) {
	c.t.Helper()
	if _, err := c.Write([]byte(strings.Join(answers, ""))); err != nil {
		c.t.Fatal(err)
	}
}

// expectEnd waits until the client closes the connection.
func (c *pipelineConn) expectEnd() {
	c.t.Helper()
	if b, err := c.br.ReadByte(); err == nil {
		c.t.Fatalf("the client sent %q, want the end of the connection", b)
	} else if clock.IsTimeout(err) {
		c.t.Fatal("the client does not close the connection")
	}
}

func answerOK(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// pendingCall is a call on its way.
type pendingCall struct {
	t    *testing.T
	req  *Request
	resp *Response
	err  chan error
}

// inBubble runs a test in a bubble of synctest.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// beginPipelined sends a request in a goroutine of its own, and returns when it is
// queued or sent. It needs a bubble: a count of requests says neither, because a
// place in the queue is reserved before, and a request that is being sent counts
// twice.
func beginPipelined(t *testing.T, c *PipelineClient, method, target string, set ...func(*Request, *Response)) *pendingCall {
	t.Helper()
	p := &pendingCall{t: t, req: new(Request), resp: new(Response), err: make(chan error, 1)}
	p.req.Header.SetMethod(method)
	p.req.SetRequestURI("http://x" + target)
	for _, f := range set {
		f(p.req, p.resp)
	}
	go func() { p.err <- c.Do(p.req, p.resp) }()
	synctest.Wait()
	return p
}

// end waits for the call.
func (p *pendingCall) end() error {
	p.t.Helper()
	select {
	case err := <-p.err:
		return err
	case <-time.After(pipelineBound):
		p.t.Fatalf("the call for %s does not return", p.req.URI())
		return nil
	}
}

// want waits for the call, and checks the body of the answer.
func (p *pendingCall) want(body string) {
	p.t.Helper()
	if err := p.end(); err != nil || string(p.resp.Body()) != body {
		p.t.Errorf("%s: %v, body %q, want %q", p.req.URI(), err, p.resp.Body(), body)
	}
}

// waitUntil waits until is true.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(pipelineBound); !is(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("not so in %v: %s", pipelineBound, what)
		}
	}
}

// noNewGoroutines checks at the end of the test that those there are then were
// there before.
func noNewGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(pipelineBound); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 64<<10)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}
