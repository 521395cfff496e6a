package sluice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// newFullPipeline returns a client whose dialing waits for dials, with a bound of
// its queue.
func newFullPipeline(t *testing.T, limit int) (c *PipelineClient, peer *pipelinePeer, dials chan struct{}) {
	c, peer = newPipelinePeer(t)
	c.MaxPendingRequests = limit
	dials = make(chan struct{})
	c.Dial = func(string) (net.Conn, error) {
		<-dials
		return peer.ln.Dial()
	}
	return c, peer, dials
}

// waitForBlocked waits until as many calls wait for room.
func waitForBlocked(t *testing.T, c *PipelineClient, n int32) {
	t.Helper()
	waitUntil(t, fmt.Sprint(n, " calls wait for room"), func() bool { return c.lanes[0].blocked.Load() == n })
}

// A request without a bound takes the place of the oldest in a full queue.
func TestPipelineOverflow(t *testing.T) {
	c, peer, dials := newFullPipeline(t, 3)
	calls := map[string]*pendingCall{}
	for _, target := range []string{"/a", "/b", "/c"} {
		calls[target] = beginCall(t, c, "GET", target)
	}
	for _, step := range [][2]string{{"/d", "/a"}, {"/e", "/b"}} {
		call := &pendingCall{t: t, req: new(Request), resp: new(Response), err: make(chan error, 1)}
		call.req.SetRequestURI("http://x" + step[0])
		go func() { call.err <- c.Do(call.req, call.resp) }()
		calls[step[0]] = call
		if err := calls[step[1]].end(); err != ErrPipelineOverflow {
			t.Errorf("%s: %v", step[1], err)
		}
		waitUntil(t, step[0]+" is queued", func() bool { return c.lanes[0].arrived.Load() != nil })
		if n := c.PendingRequests(); n != 3 {
			t.Errorf("%d pending requests", n)
		}
	}
	close(dials)
	conn := peer.accept()
	conn.expect("/c", "/d", "/e")
	conn.say(answerOK("c"), answerOK("d"), answerOK("e"))
	for _, target := range []string{"/c", "/d", "/e"} {
		calls[target].want(target[1:])
	}
}

// What is not answered is bounded, too, and the next is sent when an answer comes.
func TestPipelineUnansweredAreBounded(t *testing.T) {
	c, peer := newPipelinePeer(t)
	c.MaxPendingRequests = 2
	var calls []*pendingCall
	for i := range 4 {
		calls = append(calls, beginCall(t, c, "GET", fmt.Sprint("/", i)))
		if i < 2 {
			waitUntil(t, "it is sent", func() bool { return c.lanes[0].unanswered.Load() == int64(i+1) })
		}
	}
	conn := peer.accept()
	conn.expect("/0", "/1")
	waitUntil(t, "the lane sleeps", func() bool { return c.lanes[0].state.Load() == laneAsleep })
	if sent, waiting := c.lanes[0].unanswered.Load(), c.lanes[0].waiting.Load(); sent != 2 || waiting != 2 || conn.br.Buffered() > 0 {
		t.Errorf("%d sent, %d waiting", sent, waiting)
	}
	for i, call := range calls {
		conn.say(answerOK(fmt.Sprint(i)))
		call.want(fmt.Sprint(i))
		if i < 2 {
			conn.expect(fmt.Sprint("/", i+2))
		}
	}
}

// A request with a bound waits for room, and takes no place from another.
func TestPipelineBoundedCallsWaitForRoom(t *testing.T) {
	c, peer, dials := newFullPipeline(t, 1)
	first := beginCall(t, c, "GET", "/first")
	req, resp := new(Request), new(Response)
	req.SetRequestURI("http://x/lost")
	if err := c.DoTimeout(req, resp, 5*time.Millisecond); err != ErrTimeout {
		t.Errorf("DoTimeout: %v", err)
	}
	if err := c.DoDeadline(req, resp, time.Now().Add(5*time.Millisecond)); err != ErrTimeout {
		t.Errorf("DoDeadline: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("mine")
	failed := make(chan error, 1)
	go func() { failed <- c.DoContext(ctx, req, resp) }()
	waitForBlocked(t, c, 1)
	cancel(mine)
	err := <-failed
	if phase := (*PhaseError)(nil); !errors.As(err, &phase) || phase.Phase != PhaseWait || !errors.Is(err, mine) {
		t.Errorf("DoContext: %v", err)
	}
	waitForBlocked(t, c, 0)
	var waiting sync.WaitGroup
	const others = 20
	for range others {
		waiting.Go(func() {
			req, resp := new(Request), new(Response)
			req.SetRequestURI("http://x/other")
			if err := c.DoTimeout(req, resp, pipelineBound); err != nil || string(resp.Body()) != "other" {
				t.Errorf("%v, %q", err, resp.Body())
			}
		})
	}
	waitForBlocked(t, c, others)
	close(dials)
	conn := peer.accept()
	conn.expect("/first")
	conn.say(answerOK("first"))
	first.want("first")
	for range others {
		conn.expect("/other")
		conn.say(answerOK("other"))
	}
	waiting.Wait()
	if n, blocked := c.PendingRequests(), c.lanes[0].blocked.Load(); n != 0 || blocked != 0 {
		t.Errorf("%d pending requests, %d calls wait", n, blocked)
	}
}

// Room that comes to be in any way is given to who waits for it.
func TestPipelineRoomIsOffered(t *testing.T) {
	refused := errors.New("refused")
	c, _, dials := newFullPipeline(t, 2)
	c.Dial = func(string) (net.Conn, error) { <-dials; return nil, refused }
	begin := func(timeout time.Duration) chan error {
		done := make(chan error, 1)
		go func() {
			req, _ := newCall("GET", "http://x/")
			done <- c.DoTimeout(req, nil, timeout)
		}()
		return done
	}
	soon := begin(50 * time.Millisecond)
	waitUntil(t, "it is queued", func() bool { return c.PendingRequests() == 1 })
	later := begin(pipelineBound)
	waitUntil(t, "it is queued", func() bool { return c.PendingRequests() == 2 })
	third := begin(pipelineBound)
	if err := <-soon; err != ErrTimeout { // and the third has its place
		t.Error(err)
	}
	waitUntil(t, "no call waits", func() bool { return c.lanes[0].blocked.Load() == 0 && c.PendingRequests() == 2 })
	fourth, fifth := begin(pipelineBound), begin(pipelineBound)
	waitForBlocked(t, c, 2)
	close(dials)
	for _, call := range []chan error{later, third, fourth, fifth} {
		if err := <-call; !errors.Is(err, refused) {
			t.Error(err)
		}
	}
}
