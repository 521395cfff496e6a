package sluice

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A dial that failed delays the next ones, and one that succeeds ends that.
func TestPipelineDialErrors(t *testing.T) {
	synctest.Test(t, dialErrors)
	synctest.Test(t, func(t *testing.T) {
		if (&PipelineClient{}).Do(getRequest("/"), nil) != errNoAddr {
			t.Error("a client without Addr")
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
		if dialed := (*ErrDialWithUpstream)(nil); !errors.As(err, &dialed) || !errors.Is(err, refused) || dialed.Upstream != "x:80" {
			t.Fatalf("error %v", err)
		}
	}
	if logged.count() == 0 {
		t.Error("nothing was logged")
	}
	isUp = true
	for range 2 {
		call := &pendingCall{t: t, req: getRequest("/"), resp: new(Response), err: make(chan error, 1)}
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

// getRequest returns a request for a target.
func getRequest(target string) *Request {
	req := new(Request)
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

func (l *recordingLogger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}
